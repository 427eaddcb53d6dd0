package session

import (
	"fmt"
	"iter"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// scene is a fleet as its history makes it: events are told, folded and seen.
type scene struct {
	t *testing.T
	*projections.History
	seq   events.Seq
	epoch map[events.Chain]events.Epoch
	// tools are what instances list, absent ones not known; so are lists of other
	// kinds, as they are stored.
	tools map[string][]jsontext.Value
	lists map[string]jsontext.Value
	// told is called after events were told, if set.
	told func()
}

// window is a scene as a session sees it while events are told: the states as
// they were after some event.
type window struct {
	mu    sync.Mutex // guards what follows
	fleet *scene
}

func (w *window) show(f *scene) {
	n := &scene{t: f.t, History: f.Clone(), seq: f.seq, tools: maps.Clone(f.tools), lists: maps.Clone(f.lists)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fleet = n
}

func (w *window) now() *scene {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fleet
}

func (w *window) Servers() iter.Seq[*projections.Server] { return w.now().Servers() }

func (w *window) InstancesOf(s events.ServerID) iter.Seq[*projections.Instance] {
	return w.now().InstancesOf(s)
}

func (w *window) List(k listKind, s events.ServerID, n events.InstanceID) listing {
	return w.now().List(k, s, n)
}

func newScene(t *testing.T) *scene {
	return &scene{
		t: t, History: &projections.History{}, epoch: make(map[events.Chain]events.Epoch),
		tools: make(map[string][]jsontext.Value), lists: make(map[string]jsontext.Value),
	}
}

func (f *scene) List(k listKind, s events.ServerID, n events.InstanceID) listing {
	l := listing{definition: catalogueOf(f.Instance(s, n), k).Definition}
	if k != toolList {
		l.data = f.lists[string(k)+"."+string(s)+"."+string(n)]
		l.digest = events.DigestOf(l.data)
		return l
	}
	items, ok := f.tools[string(s)+"."+string(n)]
	l.digest = events.DigestOf(fmt.Append(nil, items))
	if ok {
		l.data, _ = json.Marshal(items)
	}
	return l
}

func (f *scene) tell(c events.Chain, bodies ...events.Body) {
	f.t.Helper()
	for _, b := range bodies {
		f.seq++
		if _, ok := b.(events.Assigned); ok {
			f.epoch[c]++
			a := b.(events.Assigned)
			a.Epoch = f.epoch[c]
			b = a
		}
		f.Apply(events.Record{Event: events.Event{Chain: c, Body: b, Epoch: f.epoch[c], Time: time.Now()}, Seq: f.seq})
	}
	if f.told != nil {
		f.told()
	}
}

// declare tells of a server of that scope.
func (f *scene) declare(id events.ServerID, change ...func(*events.Definition)) {
	f.t.Helper()
	d := events.Definition{Command: "serve-" + string(id)}
	for _, c := range change {
		c(&d)
	}
	f.tell(events.ServerChain(id), events.Declared{Definition: d})
}

// ready tells of an instance that connects and lists tools of these names.
func (f *scene) ready(id events.ServerID, n events.InstanceID, w events.WorkerID, tools ...string) {
	f.t.Helper()
	f.connecting(id, n, w)
	f.list(id, n, tools...)
}

func (f *scene) connecting(id events.ServerID, n events.InstanceID, w events.WorkerID) {
	f.t.Helper()
	c := events.InstanceChain(id, n)
	f.tell(c, events.Assigned{Worker: w}, events.Connecting{Attempt: 1, Definition: f.Server(id).Digest})
}

func (f *scene) list(id events.ServerID, n events.InstanceID, tools ...string) {
	f.t.Helper()
	items := []jsontext.Value{}
	for _, name := range tools {
		items = append(items, jsontext.Value(fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)))
	}
	f.listRaw(id, n, items...)
}

func (f *scene) listRaw(id events.ServerID, n events.InstanceID, items ...jsontext.Value) {
	f.t.Helper()
	f.tools[string(id)+"."+string(n)] = items
	f.tell(events.InstanceChain(id, n), events.Connected{}, events.ToolsListed{Listing: events.Listing{
		Digest: events.DigestOf(fmt.Append(nil, items)), Count: len(items),
	}})
}

// connected tells of a connection with these capabilities and without tools.
func (f *scene) connected(id events.ServerID, n events.InstanceID, capabilities string) {
	f.t.Helper()
	f.tools[string(id)+"."+string(n)] = []jsontext.Value{}
	f.tell(events.InstanceChain(id, n), events.Connected{Capabilities: jsontext.Value(capabilities), Instructions: "be kind"},
		events.ToolsListed{Listing: events.Listing{Digest: events.DigestOf([]byte("[]"))}})
}

// offer tells of lists of resources and prompts, as they are stored, of an
// instance that is connected; empty ones are not told of.
func (f *scene) offer(id events.ServerID, n events.InstanceID, resources, prompts string) {
	f.t.Helper()
	listed := func(k listKind, data string) events.Listing {
		f.lists[string(k)+"."+string(id)+"."+string(n)] = jsontext.Value(data)
		return events.Listing{Digest: events.DigestOf([]byte(data)), Count: strings.Count(data, `"name"`)}
	}
	if resources != "" {
		f.tell(events.InstanceChain(id, n), events.ResourcesListed{Listing: listed(resourceList, resources)})
	}
	if prompts != "" {
		f.tell(events.InstanceChain(id, n), events.PromptsListed{Listing: listed(promptList, prompts)})
	}
}
