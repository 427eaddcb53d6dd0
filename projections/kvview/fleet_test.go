package kvview

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
)

const fleetID events.FleetID = "f"

// fleet is a fleet with a real log, whose events the test writes itself.
type fleet struct {
	t      testing.TB
	server *eventstest.Server
	log    *jetlog.Log
	// history is the fold of all that was written.
	history projections.History
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	s := eventstest.NewServer(t, nil)
	f := &fleet{t: t, server: s}
	f.log = f.openLog("writer")
	return f
}

// openLog returns the log through a connection of its own.
func (f *fleet) openLog(name string, opts ...nats.Option) *jetlog.Log {
	f.t.Helper()
	l, err := jetlog.Open(f.t.Context(), f.server.Connect(name, opts...), fleetID, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

// say appends an event and returns its sequence.
func (f *fleet) say(c events.Chain, b events.Body) events.Seq {
	f.t.Helper()
	e := events.Event{Chain: c, Body: b}
	if i := f.history.Instance(c.Server(), c.Instance()); i != nil {
		e.Epoch = i.Epoch
	}
	if a, ok := b.(events.Assigned); ok {
		e.Epoch = a.Epoch
	}
	r, err := f.log.Append(f.t.Context(), e, f.history.Tip(c))
	if err != nil {
		f.t.Fatal(err)
	}
	f.history.Apply(r)
	return r.Seq
}

// declare declares a server.
func (f *fleet) declare(id events.ServerID) events.Seq {
	f.t.Helper()
	return f.say(events.ServerChain(id), events.Declared{Definition: events.Definition{Command: "run-" + string(id)}})
}

// toolsJSON returns a list of tools, of about that size.
func toolsJSON(size int, names ...string) string {
	var tools []string
	for _, n := range names {
		tools = append(tools, fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object","x-big":12345678901234567890}}`,
			n, strings.Repeat("x", size/len(names))))
	}
	return "[" + strings.Join(tools, ",") + "]"
}

// putBlob puts an object as nats.go does, but for the goroutine that its Put may
// leave behind, which no bubble forgives.
func (f *fleet) putBlob(data []byte) events.Digest {
	f.t.Helper()
	js, err := jetstream.New(f.log.Conn())
	if err != nil {
		f.t.Fatal(err)
	}
	digest, bucket := events.DigestOf(data), jetlog.StreamName(fleetID, "blobs")
	info := jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: string(digest), Opts: &jetstream.ObjectMetaOptions{ChunkSize: 128 << 10}},
		Bucket:     bucket, NUID: nuid.Next(), Size: uint64(len(data)),
	}
	for chunk := range slices.Chunk(data, 128<<10) {
		info.Chunks++
		if _, err := js.Publish(f.t.Context(), "$O."+bucket+".C."+info.NUID, chunk); err != nil {
			f.t.Fatal(err)
		}
	}
	sum := sha256.Sum256(data)
	info.Digest = "SHA-256=" + base64.URLEncoding.EncodeToString(sum[:])
	meta, err := json.Marshal(&info)
	if err != nil {
		f.t.Fatal(err)
	}
	m := nats.NewMsg("$O." + bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(digest)))
	m.Data = meta
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	if _, err := js.PublishMsg(f.t.Context(), m); err != nil {
		f.t.Fatal(err)
	}
	return digest
}

// ready takes an instance through its life until it is ready with those tools.
func (f *fleet) ready(s events.ServerID, n events.InstanceID, tools string) events.Seq {
	f.t.Helper()
	digest := f.putBlob([]byte(tools))
	c := events.InstanceChain(s, n)
	if i := f.history.Instance(s, n); i == nil || !i.State.Owned() {
		epoch := events.Epoch(1)
		if i != nil {
			epoch = i.Epoch + 1
		}
		f.say(c, events.Assigned{Worker: "w", Incarnation: "i", Epoch: epoch})
	}
	f.say(c, events.Connecting{Attempt: 1, Generation: 1, Definition: "d1"})
	f.say(c, events.Connected{Protocol: "2025-11-25", Era: "handshake", PID: 42})
	return f.say(c, events.ToolsListed{Listing: events.Listing{Digest: digest, Count: strings.Count(tools, `"name"`)}})
}

// offer lists resources and prompts of an instance that is ready.
func (f *fleet) offer(s events.ServerID, n events.InstanceID, name string) events.Seq {
	f.t.Helper()
	list := func(items string) events.Listing {
		return events.Listing{Digest: f.putBlob([]byte(items)), Count: 1}
	}
	c := events.InstanceChain(s, n)
	f.say(c, events.ResourcesListed{Listing: list(`{"resources":[{"uri":"file:///` + name + `","name":"` + name + `"}],"templates":[]}`)})
	return f.say(c, events.PromptsListed{Listing: list(`[{"name":"` + name + `"}]`)})
}

// someLife writes a fleet's ordinary history: n servers with an instance each, of
// which the first has resources and prompts.
func (f *fleet) someLife(n int) {
	f.t.Helper()
	f.say(events.FleetChain(), events.LedBy{Controller: "c", Incarnation: "i"})
	f.say(events.WorkerChain("w"), events.Joined{Host: "w", Incarnation: "i"})
	for i := range n {
		id := events.ServerID(fmt.Sprintf("s%d", i))
		f.declare(id)
		f.ready(id, "0", toolsJSON(100, fmt.Sprintf("tool-%d", i), "other"))
		if i == 0 {
			f.offer(id, "0", "first")
		}
	}
}

// project runs a projector until the returned function is called, which returns
// what Project did.
func (f *fleet) project(l *jetlog.Log, o *Options) (stop func() error) {
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- Project(ctx, l, o) }()
	return func() error {
		cancel()
		return <-done
	}
}

// projectAll projects everything there is, and stops.
func (f *fleet) projectAll() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Minute)
	defer cancel()
	err := Project(ctx, f.log, &Options{hook: func(point string) {
		if point == "after position" {
			cancel()
		}
	}})
	if err != nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f.t.Fatalf("Project: %v, %v", err, ctx.Err())
	}
}

// stream returns the stream of the bucket of views.
func (f *fleet) stream() jetstream.Stream {
	f.t.Helper()
	js, err := jetstream.New(f.log.Conn())
	if err != nil {
		f.t.Fatal(err)
	}
	s, err := openStream(f.t.Context(), js, fleetID)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// await waits until the stored position is at least seq.
func (f *fleet) await(seq events.Seq) {
	f.t.Helper()
	r, err := Open(f.t.Context(), f.log.Conn(), fleetID, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	limit, cancelLimit := context.WithTimeout(f.t.Context(), 5*time.Minute)
	defer cancelLimit()
	if err := r.Wait(limit, seq); err != nil {
		f.t.Errorf("the views do not reach %d: they are %s", seq, r.AsOf().Text(time.Now()))
	}
	cancel()
	if err := <-done; err != nil {
		f.t.Error(err)
	}
}

// views is everything in the bucket.
type views struct {
	position Position
	raw      map[key]string
	revision map[key]uint64
}

// read reads the bucket.
func (f *fleet) read() views {
	f.t.Helper()
	v := views{raw: make(map[key]string), revision: make(map[key]uint64)}
	w, err := openWatch(f.t.Context(), f.stream(), subjectPrefix(fleetID), 0)
	if err != nil {
		f.t.Fatal(err)
	}
	defer w.close()
	err = w.first(f.t.Context(), func(u update) error {
		k, ok := parseKey(u.key)
		switch {
		case !ok:
			f.t.Errorf("strange key %s", u.key)
		case k.kind == positionKey:
			return json.Unmarshal(u.data, &v.position)
		case !u.deleted:
			v.raw[k], v.revision[k] = string(u.data), u.revision
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return v
}

// verify checks what must always hold of the bucket, and returns it: each entry
// equals the fold of its chain's events up to its seq, and none of its events
// lies in (seq, position].
func (f *fleet) verify() views {
	f.t.Helper()
	v := f.read()
	stored := eventstest.Stored(f.t, f.log, 0)
	upTo := func(seq events.Seq) *projections.History {
		h := new(projections.History)
		for _, r := range stored {
			if r.Seq <= seq {
				h.Apply(r)
			}
		}
		return h
	}
	at := upTo(v.position.Seq)
	for k, raw := range v.raw {
		entry, err := projections.DecodeRaw([]byte(raw))
		if err != nil {
			f.t.Errorf("%s: %v", k, err)
			continue
		}
		if diff := cmp.Diff(f.encode(k, upTo(entry.Seq), entry.Log), raw); diff != "" {
			f.t.Errorf("%s is not the fold of its events up to %d (-fold +stored):\n%s", k, entry.Seq, diff)
		}
		if last := lastOf(k, at); last > entry.Seq {
			f.t.Errorf("%s is at %d, but has an event at %d, before the position %d", k, entry.Seq, last, v.position.Seq)
		}
	}
	for c, tip := range at.Tips() {
		if _, ok := v.raw[keyOf(c)]; !ok {
			f.t.Errorf("%s has events up to %d, but no entry at %d", c, tip.Seq, v.position.Seq)
		}
	}
	return v
}

// lastOf returns the last event of an entry in a history.
func lastOf(k key, h *projections.History) events.Seq {
	c := k.chain()
	if i := h.Instance(c.Server(), c.Instance()); k.kind.isList() {
		if i == nil {
			return 0
		}
		return k.kind.catalogue(i).Changed
	}
	return h.Tip(c).Seq
}

// encode returns the entry of a history, independently of the projector.
func (f *fleet) encode(k key, h *projections.History, log events.LogID) string {
	f.t.Helper()
	c := k.chain()
	var data []byte
	var err error
	switch k.kind {
	case serverKey:
		data, err = encodeState(log, h.Server(c.Server()), projections.Server{ID: c.Server()})
	case statusKey:
		data, err = encodeState(log, h.Instance(c.Server(), c.Instance()), projections.Instance{Server: c.Server(), Instance: c.Instance()})
	case workerKey:
		data, err = encodeState(log, h.Worker(c.Worker()), projections.Worker{ID: c.Worker()})
	case fleetKey:
		data, err = encodeState(log, h.Fleet(), projections.Fleet{})
	case toolsKey, resourcesKey, promptsKey:
		l := List{Server: c.Server(), Instance: c.Instance()}
		var seq events.Seq
		if i := h.Instance(c.Server(), c.Instance()); i != nil {
			of := map[keyKind]projections.Catalogue{toolsKey: i.Tools, resourcesKey: i.Resources, promptsKey: i.Prompts}[k.kind]
			l.Definition, l.Digest, l.Count, seq = of.Definition, of.Digest, of.Count, of.Changed
		}
		if l.Digest != "" {
			blob, err := f.log.GetBlob(f.t.Context(), l.Digest)
			if err != nil {
				f.t.Fatal(err)
			}
			if len(blob) <= 256<<10 {
				*map[keyKind]*jsontext.Value{toolsKey: &l.Tools, resourcesKey: &l.Resources, promptsKey: &l.Prompts}[k.kind] = blob
			}
		}
		e := ListEntry{Log: log, Fold: projections.Version, Seq: seq, Value: l}
		data, err = e.Encode()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return string(data)
}

func encodeState[S any, P interface {
	*S
	At() events.Tip
}](log events.LogID, s P, none S) ([]byte, error) {
	if s == nil {
		s = &none
	}
	tip := s.At()
	e := projections.Entry[S]{Log: log, Fold: projections.Version, Seq: tip.Seq, Link: tip.Link, Value: *s}
	return e.Encode()
}

// keys returns the names of the entries, sorted.
func (v *views) keys() []string {
	var names []string
	for k := range v.raw {
		names = append(names, k.String())
	}
	slices.Sort(names)
	return names
}

// changedSince returns the names of the entries that were written since.
func (v *views) changedSince(before views) []string {
	var names []string
	for k := range maps.Keys(v.raw) {
		if v.revision[k] != before.revision[k] {
			names = append(names, k.String())
		}
	}
	slices.Sort(names)
	return names
}
