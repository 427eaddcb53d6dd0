package story

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// Moment is a fleet as it was at a position.
type Moment struct {
	Time    time.Time
	History *projections.History
	// Tools returns the tools in a list, by the list's digest: each name with the
	// digest of its definition; false where the list cannot be read.
	Tools func(events.Digest) (map[string]events.Digest, bool)
}

// Difference is what is different between two moments. Its lists are in the order
// of ids and names, and never nil.
type Difference struct {
	From    Point          `json:"from"`
	To      Point          `json:"to"`
	Servers []ServerChange `json:"servers"`
	Tools   []ToolChange   `json:"tools"`
	Workers []WorkerChange `json:"workers"`
}

// Point is a position and its time.
type Point struct {
	Seq  events.Seq `json:"seq"`
	Time time.Time  `json:"time"`
}

// Change is how something differs.
type Change string

// The changes.
const (
	Added   Change = "added"
	Removed Change = "removed"
	Changed Change = "changed"
	// Unreadable stands for a list of tools that is not in the store any more.
	Unreadable Change = "unreadable"
)

// ServerChange is a server that differs.
type ServerChange struct {
	ID     events.ServerID `json:"id"`
	Change Change          `json:"change"`
	// Fields of the definition that differ, and the members "enabled", "want",
	// "state" and "worker" of its status.
	Fields []FieldChange `json:"fields"`
	// Restarts after failures between the moments.
	Restarts int `json:"restarts"`
}

// FieldChange is a member with its two values, in JSON; an absent one is null.
type FieldChange struct {
	Name string         `json:"name"`
	From jsontext.Value `json:"from"`
	To   jsontext.Value `json:"to"`
}

// ToolChange is a tool that differs.
type ToolChange struct {
	Server events.ServerID `json:"server"`
	// Name is the qualified one, Tool the server's own; both are empty where the
	// list is unreadable.
	Name   string `json:"name"`
	Tool   string `json:"tool"`
	Change Change `json:"change"`
}

// WorkerChange is a worker that differs.
type WorkerChange struct {
	ID     events.WorkerID `json:"id"`
	Change Change          `json:"change"`
	// Fields "state", "host", "labels", "capacity", "draining", "cordoned" and
	// "versions" that differ.
	Fields []FieldChange `json:"fields"`
	// Joins between the moments: how often it was started.
	Joins int `json:"joins"`
}

// Compare returns what is different at b, seen from a.
func Compare(a, b *Moment) *Difference {
	d := &Difference{
		From: Point{a.History.Seq(), a.Time}, To: Point{b.History.Seq(), b.Time},
		Servers: []ServerChange{}, Tools: []ToolChange{}, Workers: []WorkerChange{},
	}
	for _, id := range union(serverIDs(a.History), serverIDs(b.History)) {
		if c, differs := compareServers(id, a.History, b.History); differs {
			d.Servers = append(d.Servers, c)
		}
		d.Tools = append(d.Tools, compareTools(id, a, b)...)
	}
	for _, id := range union(workerIDs(a.History), workerIDs(b.History)) {
		if c, differs := compareWorkers(id, a.History.Worker(id), b.History.Worker(id)); differs {
			d.Workers = append(d.Workers, c)
		}
	}
	return d
}

func union[T cmp.Ordered](a, b []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// serverIDs returns the servers that a fleet has.
func serverIDs(h *projections.History) (ids []events.ServerID) {
	for s := range h.Servers() {
		if s.Exists() {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func workerIDs(h *projections.History) (ids []events.WorkerID) {
	for w := range h.Workers() {
		ids = append(ids, w.ID)
	}
	return ids
}

// existing returns a server that a fleet has, or nil.
func existing(h *projections.History, id events.ServerID) *projections.Server {
	if s := h.Server(id); s != nil && s.Exists() {
		return s
	}
	return nil
}

func compareServers(id events.ServerID, a, b *projections.History) (c ServerChange, differs bool) {
	was, is := existing(a, id), existing(b, id)
	c = ServerChange{ID: id, Change: changeOf(was != nil, is != nil), Restarts: restarts(b, id) - restarts(a, id)}
	from, to := make(map[string]jsontext.Value), make(map[string]jsontext.Value)
	if was != nil {
		from = serverFields(a, was)
	}
	if is != nil {
		to = serverFields(b, is)
	}
	c.Fields = compareFields(from, to)
	return c, c.Change != Changed || len(c.Fields) > 0 || c.Restarts != 0
}

func changeOf(was, is bool) Change {
	switch {
	case !was && is:
		return Added
	case was && !is:
		return Removed
	default:
		return Changed
	}
}

func restarts(h *projections.History, id events.ServerID) (n int) {
	for i := range h.InstancesOf(id) {
		n += i.Restarts
	}
	return n
}

func serverFields(h *projections.History, s *projections.Server) map[string]jsontext.Value {
	n := projections.NewStatus(s, h.InstancesOf(s.ID))
	fields := membersOf(s.Definition)
	fields["enabled"], fields["want"] = value(s.Enabled), value(s.Wanted())
	fields["state"], fields["worker"] = value(n.State), value(n.Worker)
	delete(fields, "disabled") // enabled says it
	return fields
}

func compareWorkers(id events.WorkerID, was, is *projections.Worker) (c WorkerChange, differs bool) {
	c = WorkerChange{ID: id, Change: changeOf(was != nil, is != nil)}
	var none projections.Worker
	from, to := make(map[string]jsontext.Value), make(map[string]jsontext.Value)
	if was == nil {
		was = &none
	} else {
		from = workerFields(was)
	}
	if is == nil {
		is = &none
	} else {
		to = workerFields(is)
	}
	c.Fields, c.Joins = compareFields(from, to), is.Joins-was.Joins
	return c, c.Change != Changed || len(c.Fields) > 0 || c.Joins != 0
}

func workerFields(w *projections.Worker) map[string]jsontext.Value {
	return map[string]jsontext.Value{
		"state": value(w.State), "host": value(w.Host), "labels": value(w.Labels), "capacity": value(w.Capacity),
		"draining": value(w.Draining), "cordoned": value(w.Cordoned), "versions": value(w.Versions),
	}
}

// value returns a value's JSON, or null for what JSON cannot hold.
func value(v any) jsontext.Value {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return jsontext.Value("null") // unreachable: it is text, a number or a map of text
	}
	return data
}

func compareFields(from, to map[string]jsontext.Value) []FieldChange {
	changes := []FieldChange{}
	for _, name := range union(slices.Collect(maps.Keys(from)), slices.Collect(maps.Keys(to))) {
		if a, b := from[name], to[name]; string(a) != string(b) {
			changes = append(changes, FieldChange{name, orNull(a), orNull(b)})
		}
	}
	return changes
}

func orNull(v jsontext.Value) jsontext.Value {
	if v == nil {
		return jsontext.Value("null")
	}
	return v
}

// compareTools compares the lists of tools that a server's instance had last.
func compareTools(id events.ServerID, a, b *Moment) (changes []ToolChange) {
	before, after := listOf(a.History, id), listOf(b.History, id)
	if before == after {
		return nil
	}
	was, known := a.tools(before)
	is, alsoKnown := b.tools(after)
	if !known || !alsoKnown {
		return []ToolChange{{Server: id, Change: Unreadable}}
	}
	for _, name := range union(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(is))) {
		x, had := was[name]
		y, has := is[name]
		if had && has && x == y {
			continue
		}
		changes = append(changes, ToolChange{id, projections.Qualified.Name(id, name), name, changeOf(had, has)})
	}
	return changes
}

// listOf returns the digest of a server's list of tools, or "" if it has none.
func listOf(h *projections.History, id events.ServerID) (d events.Digest) {
	if existing(h, id) == nil {
		return ""
	}
	var newest events.Seq
	for i := range h.InstancesOf(id) {
		if i.Tools.Seq > newest {
			newest, d = i.Tools.Seq, i.Tools.Digest
		}
	}
	return d
}

func (m *Moment) tools(d events.Digest) (map[string]events.Digest, bool) {
	if d == "" {
		return nil, true
	}
	if m.Tools == nil {
		return nil, false
	}
	return m.Tools(d)
}
