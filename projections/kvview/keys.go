package kvview

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
)

const (
	// InlineLimit is the longest list, in bytes of JSON, that an entry holds; of a
	// longer one it has the digest, and the list is in the blob store.
	InlineLimit = 256 << 10
	// Heartbeat is how often position is written when nothing happens, to say
	// that nothing did.
	Heartbeat = 10 * time.Second
)

// List is the value of an entry with tools, resources or prompts: those of the
// definition that an instance was last connected to.
type List struct {
	Server   events.ServerID   `json:"server"`
	Instance events.InstanceID `json:"instance"`
	// Definition is the digest of the server's definition.
	Definition events.Digest `json:"definition,omitzero"`
	// Digest of the list, and its key in the blob store; empty when there is no
	// list.
	Digest events.Digest `json:"digest,omitzero"`
	Count  int           `json:"count,omitzero"`
	// Tools are the definitions in the order of their names, in JSON as the
	// server sent them; absent above [InlineLimit], and from the other entries.
	Tools jsontext.Value `json:"tools,omitzero"`
	// Resources are likewise {"resources":[…],"templates":[…]}, each in the order
	// of their URIs.
	Resources jsontext.Value `json:"resources,omitzero"`
	// Prompts are likewise the definitions in the order of their names.
	Prompts jsontext.Value `json:"prompts,omitzero"`
}

// newList returns a list of an instance without its items.
func newList(k key, c *projections.Catalogue) List {
	return List{
		Server: events.ServerID(k.id), Instance: k.instance,
		Definition: c.Definition, Digest: c.Digest, Count: c.Count,
	}
}

// fill gives the list its items.
func (l *List) fill(kind keyKind, items jsontext.Value) {
	switch kind {
	case toolsKey:
		l.Tools = items
	case resourcesKey:
		l.Resources = items
	default:
		l.Prompts = items
	}
}

// Position is how far all entries are: the value of the key position.
type Position struct {
	Log  events.LogID `json:"log"`
	Fold int          `json:"fold"`
	Seq  events.Seq   `json:"seq"`
	// Source is the broker's id of the history, where Log is another: after the
	// history lost its end, say.
	Source events.LogID `json:"source,omitzero"`
	// Pass counts rebuilds: entries may have gone back when it rises.
	Pass int `json:"pass,omitzero"`
}

func (p *Position) source() events.LogID {
	if p.Source != "" {
		return p.Source
	}
	return p.Log
}

// Order returns the position's place among all positions of one pass.
func (p *Position) Order() projections.Order {
	return projections.Order{Log: p.Log, Fold: p.Fold, Seq: p.Seq}
}

// key names an entry.
type key struct {
	kind     keyKind
	id       string // server or worker
	instance events.InstanceID
}

type keyKind string

const (
	serverKey    keyKind = "server"
	statusKey    keyKind = "status"
	toolsKey     keyKind = "tools"
	resourcesKey keyKind = "resources"
	promptsKey   keyKind = "prompts"
	workerKey    keyKind = "worker"
	fleetKey     keyKind = "fleet"
	positionKey  keyKind = "position"
)

// listKinds are those of entries with a [List].
var listKinds = [...]keyKind{toolsKey, resourcesKey, promptsKey}

func (k keyKind) isList() bool { return slices.Contains(listKinds[:], k) }

// catalogue returns that of an instance which an entry with a list tells of.
func (k keyKind) catalogue(i *projections.Instance) *projections.Catalogue {
	switch k {
	case toolsKey:
		return &i.Tools
	case resourcesKey:
		return &i.Resources
	default:
		return &i.Prompts
	}
}

func (k key) String() string {
	switch k.kind {
	case serverKey, workerKey:
		return string(k.kind) + "." + k.id
	case statusKey, toolsKey, resourcesKey, promptsKey:
		return string(k.kind) + "." + k.id + "." + string(k.instance)
	default:
		return string(k.kind)
	}
}

// parseKey is the inverse of key.String; false for what is no key of a view.
func parseKey(s string) (key, bool) {
	kind, rest, _ := strings.Cut(s, ".")
	k := key{kind: keyKind(kind)}
	switch k.kind {
	case fleetKey, positionKey:
		return k, rest == ""
	case serverKey, workerKey:
		k.id = rest
	case statusKey, toolsKey, resourcesKey, promptsKey:
		server, instance, _ := strings.Cut(rest, ".")
		k.id, k.instance = server, events.InstanceID(instance)
		if _, err := events.ParseInstanceID(instance); err != nil {
			return k, false
		}
	default:
		return k, false
	}
	_, err := events.ParseServerID(k.id) // a worker's id has the same form
	return k, err == nil
}

// chain returns the chain that the entry folds.
func (k key) chain() events.Chain {
	switch k.kind {
	case serverKey:
		return events.ServerChain(events.ServerID(k.id))
	case statusKey, toolsKey, resourcesKey, promptsKey:
		return events.InstanceChain(events.ServerID(k.id), k.instance)
	case workerKey:
		return events.WorkerChain(events.WorkerID(k.id))
	case fleetKey:
		return events.FleetChain()
	default:
		return events.Chain{}
	}
}

// keyOf returns the key of a chain's state.
func keyOf(c events.Chain) key {
	switch c.Kind() {
	case events.OfServer:
		return key{kind: serverKey, id: string(c.Server())}
	case events.OfInstance:
		return key{kind: statusKey, id: string(c.Server()), instance: c.Instance()}
	case events.OfWorker:
		return key{kind: workerKey, id: string(c.Worker())}
	default:
		return key{kind: fleetKey}
	}
}

// bucketName returns the name of the fleet's bucket of views.
func bucketName(f events.FleetID) string { return jetlog.StreamName(f, "views") }
