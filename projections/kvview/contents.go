package kvview

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// contents are the entries of a bucket. Those of instances are by server, since
// they are asked for so.
type contents struct {
	servers   map[events.ServerID]*ServerEntry
	instances map[events.ServerID]map[events.InstanceID]*InstanceEntry
	lists     map[keyKind]map[events.ServerID]map[events.InstanceID]*ListEntry
	workers   map[events.WorkerID]*WorkerEntry
	fleet     *FleetEntry
}

func newContents() contents {
	c := contents{
		servers:   make(map[events.ServerID]*ServerEntry),
		instances: make(map[events.ServerID]map[events.InstanceID]*InstanceEntry),
		lists:     make(map[keyKind]map[events.ServerID]map[events.InstanceID]*ListEntry),
		workers:   make(map[events.WorkerID]*WorkerEntry),
	}
	for _, k := range listKinds {
		c.lists[k] = make(map[events.ServerID]map[events.InstanceID]*ListEntry)
	}
	return c
}

// set puts an entry under a key, or removes it if data is nil.
func (c *contents) set(k key, data []byte) error {
	server, err := events.ServerID(k.id), error(nil)
	switch k.kind {
	case serverKey:
		err = setIn(c.servers, server, data)
	case statusKey:
		err = setIn(within(c.instances, server), k.instance, data)
	case toolsKey, resourcesKey, promptsKey:
		err = setIn(within(c.lists[k.kind], server), k.instance, data)
	case workerKey:
		err = setIn(c.workers, events.WorkerID(k.id), data)
	case fleetKey:
		one := map[keyKind]*FleetEntry{fleetKey: c.fleet}
		err = setIn(one, fleetKey, data)
		c.fleet = one[fleetKey]
	case positionKey: // it is no entry
	}
	return errors.Wrapf(err, "view %s", k)
}

func within[K comparable, L comparable, V any](m map[K]map[L]V, k K) map[L]V {
	if m[k] == nil {
		m[k] = make(map[L]V)
	}
	return m[k]
}

func setIn[K comparable, S any](m map[K]*projections.Entry[S], k K, data []byte) error {
	if data == nil {
		delete(m, k)
		return nil
	}
	e, err := projections.DecodeEntry[S](data)
	if err == nil {
		m[k] = e
	}
	return err
}

// apply takes updates, in the order of their revisions, into the copy.
func (r *Reader) apply(us []update) {
	r.mu.Lock()
	for i := range us {
		r.take(&r.copied, &us[i])
	}
	r.mu.Unlock()
	r.publish()
}

// replace makes a new copy of a bucket that was not read before.
func (r *Reader) replace(us []update) {
	n := newContents()
	for i := range us {
		r.take(&n, &us[i])
	}
	r.mu.Lock()
	r.copied = n
	r.mu.Unlock()
	r.publish()
}

// take puts one update into contents. An entry that cannot be read, which is a
// newer version's or damaged, stays as it was.
func (r *Reader) take(c *contents, u *update) {
	r.revision = max(r.revision, u.revision)
	k, ok := parseKey(u.key)
	switch {
	case !ok:
		return
	case k.kind == positionKey:
		r.takePosition(u)
	case u.deleted:
		_ = c.set(k, nil) // cannot fail
	default:
		if err := c.set(k, u.data); err != nil {
			r.logger.Warn("a view cannot be read", "err", err)
		}
	}
	if u.pending == 0 && r.position != nil {
		// Nothing that was written before the position is still to come: where an
		// entry was written twice, only the second is delivered.
		r.reached, r.position = r.position, nil
	}
}

func (r *Reader) takePosition(u *update) {
	var p Position
	if err := json.Unmarshal(u.data, &p); err != nil {
		return // deleted, or damaged; a writer will put another
	}
	r.position = &AsOf{Position: events.Position{Log: p.Log, Seq: p.Seq}, Time: time.Now()}
	if r.catching && u.created.Before(r.position.Time) {
		r.position.Time = u.created
	}
}

// publish tells watchers that entries changed.
func (r *Reader) publish() {
	a, _ := r.moments.Load()
	if r.reached != nil {
		a, r.reached = *r.reached, nil
	}
	r.moments.Set(a, a.Seq)
}

// Server returns the entry of a server, or nil.
func (r *Reader) Server(id events.ServerID) *ServerEntry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.copied.servers[id]
}

// Servers returns the entries of all servers, withdrawn ones too, in the order
// of their ids.
func (r *Reader) Servers() []*ServerEntry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return inOrder(r.copied.servers)
}

// Instance returns the entry of an instance, or nil.
func (r *Reader) Instance(s events.ServerID, n events.InstanceID) *InstanceEntry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.copied.instances[s][n]
}

// Instances returns the entries of a server's instances in the order of their
// ids.
func (r *Reader) Instances(s events.ServerID) []*InstanceEntry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return inOrder(r.copied.instances[s])
}

// Tools returns the entry with an instance's tools, or nil. It may be a moment
// newer than the instance's own: compare their digests.
func (r *Reader) Tools(s events.ServerID, n events.InstanceID) *ListEntry {
	return r.list(toolsKey, s, n)
}

// Resources returns the entry with an instance's resources and templates, or nil,
// as [Reader.Tools] does.
func (r *Reader) Resources(s events.ServerID, n events.InstanceID) *ListEntry {
	return r.list(resourcesKey, s, n)
}

// Prompts returns the entry with an instance's prompts, or nil, as [Reader.Tools]
// does.
func (r *Reader) Prompts(s events.ServerID, n events.InstanceID) *ListEntry {
	return r.list(promptsKey, s, n)
}

func (r *Reader) list(k keyKind, s events.ServerID, n events.InstanceID) *ListEntry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.copied.lists[k][s][n]
}

// Worker returns the entry of a worker, or nil.
func (r *Reader) Worker(id events.WorkerID) *WorkerEntry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.copied.workers[id]
}

// Workers returns the entries of all workers in the order of their ids.
func (r *Reader) Workers() []*WorkerEntry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return inOrder(r.copied.workers)
}

// Fleet returns the entry of the fleet itself, or nil.
func (r *Reader) Fleet() *FleetEntry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.copied.fleet
}

// Status returns a server joined with its instances, as of one moment; false
// for one of which nothing is known.
func (r *Reader) Status(id events.ServerID) (projections.Status, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, of := r.copied.servers[id], r.copied.instances[id]
	if s == nil && len(of) == 0 {
		return projections.Status{}, false
	}
	if s == nil {
		s = &ServerEntry{Value: projections.Server{ID: id}}
	}
	return projections.NewStatus(&s.Value, func(yield func(*projections.Instance) bool) {
		for _, i := range inOrder(of) {
			if !yield(&i.Value) {
				return
			}
		}
	}), true
}

func inOrder[K cmp.Ordered, V any](m map[K]V) []V {
	values := make([]V, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[k])
	}
	return values
}
