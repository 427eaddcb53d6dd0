package session

import (
	"context"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// feed is a fleet's views as they come over one connection. All sessions of the
// process on that connection share it, because each watch of the bucket slows
// its writers.
type feed struct {
	key   feedKey
	guest *jetlog.Guest
	*kvview.Reader

	// ready is closed when the feed is open, or err says why it is not.
	ready chan struct{}
	err   error
	stop  context.CancelFunc
	done  chan struct{}

	// users is guarded by feeds.mu.
	users int

	mu sync.Mutex // guards lists
	// lists are the newest ones that are too long for the views.
	lists map[listKey]*longList
	// arrived signals that a list was fetched.
	arrived projections.View[struct{}]
	// life ends with the feed.
	life    context.Context //nolint:containedctx // fetches belong to the feed, not to the session that came first
	fetches sync.WaitGroup
}

type feedKey struct {
	nc    *nats.Conn
	fleet events.FleetID
}

// feeds are the open feeds of the process.
var feeds = struct {
	mu   sync.Mutex // guards what follows, and users of each feed
	open map[feedKey]*feed
	// guests are made once: each that called keeps a subscription as long as its
	// connection.
	guests map[feedKey]*jetlog.Guest
}{open: make(map[feedKey]*feed), guests: make(map[feedKey]*jetlog.Guest)}

// guest returns the bus of a fleet on a connection.
func guest(k feedKey) (*jetlog.Guest, error) {
	feeds.mu.Lock()
	defer feeds.mu.Unlock()
	maps.DeleteFunc(feeds.guests, func(k feedKey, _ *jetlog.Guest) bool { return k.nc.IsClosed() })
	if g := feeds.guests[k]; g != nil {
		return g, nil
	}
	g, err := jetlog.Visit(k.nc, k.fleet)
	if err == nil {
		feeds.guests[k] = g
	}
	return g, err
}

// share returns the feed of a fleet on a connection, opened if there is none.
// Each user leaves it.
func share(ctx context.Context, nc *nats.Conn, id events.FleetID) (*feed, error) {
	for {
		f, first := join(feedKey{nc, id})
		if first {
			f.open(ctx)
		}
		select {
		case <-f.ready:
		case <-ctx.Done():
			f.leave()
			return nil, errors.Wrapf(ctx.Err(), "open the views of fleet %s", id)
		}
		if f.err == nil {
			return f, nil
		}
		err := f.err
		f.leave()
		if first || ctx.Err() != nil {
			return nil, err
		}
		// Whoever came first may have had no time: try with ours.
	}
}

func join(k feedKey) (f *feed, first bool) {
	feeds.mu.Lock()
	defer feeds.mu.Unlock()
	f = feeds.open[k]
	if first = f == nil; first {
		f = &feed{key: k, ready: make(chan struct{}), done: make(chan struct{}), lists: make(map[listKey]*longList)}
		feeds.open[k] = f
	}
	f.users++
	return f, first
}

// open reads the views and begins to follow them.
func (f *feed) open(ctx context.Context) {
	defer close(f.ready)
	f.life, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	f.guest, f.err = guest(f.key)
	if f.err == nil {
		f.Reader, f.err = kvview.Open(ctx, f.key.nc, f.key.fleet, nil)
	}
	if f.err != nil {
		f.forget()
		close(f.done)
		return
	}
	go func() {
		defer close(f.done)
		// Its error is that the connection was closed: what was read stays.
		_ = f.Run(f.life)
	}()
}

// forget makes the next session open another feed.
func (f *feed) forget() {
	feeds.mu.Lock()
	defer feeds.mu.Unlock()
	if feeds.open[f.key] == f {
		delete(feeds.open, f.key)
	}
}

// leave ends the feed with its last user.
func (f *feed) leave() {
	feeds.mu.Lock()
	f.users--
	last := f.users == 0
	if last && feeds.open[f.key] == f {
		delete(feeds.open, f.key)
	}
	feeds.mu.Unlock()
	if last {
		<-f.ready
		f.stop()
		<-f.done
		f.fetches.Wait()
	}
}

// view is the fleet as a feed has it.
type view struct{ *feed }

func (v view) Servers() iter.Seq[*projections.Server] {
	return func(yield func(*projections.Server) bool) {
		for _, e := range v.Reader.Servers() {
			if !yield(&e.Value) {
				return
			}
		}
	}
}

func (v view) InstancesOf(id events.ServerID) iter.Seq[*projections.Instance] {
	return func(yield func(*projections.Instance) bool) {
		for _, e := range v.Instances(id) {
			if !yield(&e.Value) {
				return
			}
		}
	}
}

func (v view) List(kind listKind, id events.ServerID, n events.InstanceID) listing {
	l := v.stored(kind, id, n)
	if l.digest != "" && l.data == nil {
		l.data = v.fetched(listKey{kind, id, n}, l.digest)
	}
	return l
}

// stored returns a list as the views have it: without its data if that is too
// long for them.
func (v view) stored(kind listKind, id events.ServerID, n events.InstanceID) listing {
	var e *kvview.ListEntry
	switch kind {
	case toolList:
		e = v.Tools(id, n)
	case resourceList:
		e = v.Resources(id, n)
	case promptList:
		e = v.Prompts(id, n)
	}
	if e == nil {
		return listing{}
	}
	l := listing{digest: e.Value.Digest, definition: e.Value.Definition}
	for _, data := range []jsontext.Value{e.Value.Tools, e.Value.Resources, e.Value.Prompts} {
		if data != nil {
			l.data = data
		}
	}
	return l
}

// fetchRetry lies between two attempts to read a list.
const fetchRetry = 5 * time.Second

// listKey names the instance that a list is of.
type listKey struct {
	kind     listKind
	server   events.ServerID
	instance events.InstanceID
}

// longList is a list that is fetched, or was: then it has data.
type longList struct {
	digest events.Digest
	data   jsontext.Value
	stop   context.CancelFunc // of the fetch
}

// fetched returns an instance's list that is too long for the views. One that was
// not asked for before is fetched, in the place of the instance's former one;
// [feed.arrived] tells when it is there.
func (f *feed) fetched(k listKey, d events.Digest) jsontext.Value {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.lists[k]
	if l == nil || l.digest != d {
		if l != nil {
			l.stop()
		}
		ctx, stop := context.WithCancel(f.life)
		l = &longList{digest: d, stop: stop}
		f.lists[k] = l
		f.fetches.Go(func() {
			defer stop()
			f.fetch(ctx, l)
		})
	}
	return l.data
}

func (f *feed) fetch(ctx context.Context, l *longList) {
	for ctx.Err() == nil {
		data, err := f.guest.GetBlob(ctx, l.digest)
		if err == nil {
			f.mu.Lock()
			l.data = data
			f.mu.Unlock()
			f.arrived.Set(struct{}{}, 0)
			return
		}
		pause(ctx, fetchRetry)
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
