package main

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/cmd/internal/doctor"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// leases looks at the bucket of leases.
func (x *examination) leases(ctx context.Context, r *kvview.Reader, controllers int) {
	leases, err := x.readLeases(ctx)
	if err != nil {
		x.add(doctor.Error("leases", err))
		return
	}
	x.add(doctor.Leases(leases, show.ReadWorkers(r), controllers)...)
}

func (x *examination) readLeases(ctx context.Context) (leases []doctor.Lease, err error) {
	kv, err := x.js.KeyValue(ctx, jetlog.StreamName(x.id, "presence"))
	if err != nil {
		return nil, errors.Wrap(err, "find the leases")
	}
	keys, err := kv.ListKeys(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "list the leases")
	}
	defer func() { _ = keys.Stop() }() // the connection is closed soon
	for key := range keys.Keys() {
		e, err := kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue // it ended meanwhile
		}
		if err != nil {
			return nil, errors.Wrapf(err, "read lease %s", key)
		}
		var holder struct {
			Incarnation events.Incarnation `json:"incarnation"`
		}
		_ = json.Unmarshal(e.Value(), &holder) // what cannot be read is nobody's
		leases = append(leases, doctor.Lease{Key: key, Incarnation: holder.Incarnation, Age: max(0, time.Since(e.Created())-x.off)})
	}
	return leases, nil
}

func (x *examination) identities(ctx context.Context, log *jetlog.Log, r *kvview.Reader) {
	secrets, err := log.Secrets(ctx)
	if err != nil {
		x.add(doctor.Error("identity", err))
		return
	}
	recipient, err := secrets.Recipient(ctx)
	if err != nil && !errors.Is(err, jetlog.ErrNoRecipient) {
		x.add(doctor.Error("identity", err))
		return
	}
	var workers []*projections.Worker
	for _, e := range r.Workers() {
		workers = append(workers, &e.Value)
	}
	x.add(doctor.Identities(recipient, workers)...)
}

// clocks compares the times that workers wrote with those at which the server
// stored them.
func (x *examination) clocks(ctx context.Context, r *kvview.Reader) {
	stream, err := x.js.Stream(ctx, jetlog.StreamName(x.id, "events"))
	if err != nil {
		return // other checks tell
	}
	for _, e := range r.Workers() {
		if !e.Value.Present() {
			continue
		}
		c := events.WorkerChain(e.Value.ID)
		m, err := stream.GetLastMsgForSubject(ctx, c.Subject(x.id))
		if err != nil {
			continue
		}
		last := events.Read(events.Message{Subject: m.Subject, Header: m.Header, Data: m.Data}, events.Seq(m.Sequence))
		if _, own := last.Body.(events.Joined); !own {
			continue // it is a controller's
		}
		if check := doctor.Clock("worker "+string(e.Value.ID), last.Time.Sub(m.Time)); check.Verdict != doctor.OK {
			x.add(check)
		}
	}
}

const (
	// readable is how many events are read for the lists that they refer to: more
	// take longer than people wait.
	readable = 300_000
	// fresh is how old a list has to be before it counts as forgotten: it is stored
	// before the event that refers to it.
	fresh = time.Minute
)

// lists compares the store of lists with what refers to it.
func (x *examination) lists(ctx context.Context, log *jetlog.Log, head events.Seq, r *kvview.Reader) {
	store, err := x.js.ObjectStore(ctx, jetlog.StreamName(x.id, "blobs"))
	if err != nil {
		x.add(doctor.Error("lists", errors.Wrap(err, "find the store of lists")))
		return
	}
	stored, err := store.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		x.add(doctor.Error("lists", errors.Wrap(err, "read the store of lists")))
		return
	}
	have := make(map[events.Digest]bool, len(stored))
	b := &doctor.Blobs{Stored: len(stored)}
	for _, o := range stored {
		have[events.Digest(o.Name)] = true
	}
	for _, e := range r.Servers() {
		for _, i := range r.Instances(e.Value.ID) {
			if t := &i.Value.Tools; e.Value.Offer(&i.Value) != "" && t.Digest != "" && !have[t.Digest] {
				b.Missing = append(b.Missing, string(i.Value.Server)+"."+string(i.Value.Instance))
			}
		}
	}
	if head <= readable {
		referred, err := digests(ctx, log, head)
		if err != nil {
			x.add(doctor.Error("lists", err))
			return
		}
		for _, o := range stored {
			if !referred[events.Digest(o.Name)] && time.Since(o.ModTime)-x.off > fresh {
				b.Orphans++
				b.OrphanBytes += o.Size
			}
		}
	}
	x.add(doctor.Lists(b))
}

// digests returns those of all lists that a history refers to.
func digests(ctx context.Context, log *jetlog.Log, head events.Seq) (map[events.Digest]bool, error) {
	referred := make(map[events.Digest]bool)
	if head == 0 {
		return referred, nil
	}
	for r, err := range log.Follow(ctx, 0, &jetlog.FollowOptions{Until: head}) {
		if err != nil {
			return nil, err
		}
		switch b := r.Body.(type) {
		case events.ToolsListed:
			referred[b.Digest] = true
		case events.ResourcesListed:
			referred[b.Digest] = true
		case events.PromptsListed:
			referred[b.Digest] = true
		default:
		}
	}
	return referred, ctx.Err()
}
