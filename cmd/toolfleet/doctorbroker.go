package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/cmd/internal/doctor"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// noteDenials collects what NATS does not permit: it answers such a request with
// an error of the connection.
func (x *examination) noteDenials() {
	x.nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.denied = append(x.denied, err.Error())
		}
	})
}

func (x *examination) refused() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(x.denied)))
}

// streamWithin bounds the look at one stream: who may not look is not answered.
const streamWithin = 2 * time.Second

// broker looks at the fleet's streams, and at the account.
func (x *examination) broker(ctx context.Context) {
	for _, name := range []string{"events", "commands"} {
		x.stream(ctx, jetlog.StreamName(x.id, name))
	}
	for _, name := range []string{"presence", "sessions", "views", "secrets"} {
		x.stream(ctx, "KV_"+jetlog.StreamName(x.id, name))
	}
	x.stream(ctx, "OBJ_"+jetlog.StreamName(x.id, "blobs"))
	x.add(doctor.Replicas(x.streams)...)
	ctx, cancel := context.WithTimeout(ctx, streamWithin)
	defer cancel()
	account, err := x.js.AccountInfo(ctx)
	if err != nil {
		account = &jetstream.AccountInfo{} // its limits are then not known
	}
	x.add(doctor.Limits(x.streams, account.Store, uint64(max(0, account.Limits.MaxStore)))...)
	if x.known {
		x.add(doctor.Clock("this host", x.off))
	}
}

// stream looks at one stream.
func (x *examination) stream(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, streamWithin)
	defer cancel()
	before := time.Now()
	s, err := x.js.Stream(ctx, name)
	if err != nil {
		x.streams = append(x.streams, doctor.Stream{Name: name, Err: err})
		return
	}
	info := s.CachedInfo()
	if middle := before.Add(time.Since(before) / 2); !info.TimeStamp.IsZero() {
		x.off, x.known = middle.Sub(info.TimeStamp), true
	}
	n := doctor.Stream{
		Name: name, Replicas: info.Config.Replicas, Bytes: info.State.Bytes,
		MaxBytes: uint64(max(0, info.Config.MaxBytes)), Clustered: x.nc.ConnectedClusterName() != "",
	}
	if c := info.Cluster; c != nil {
		n.Leader = c.Leader
		for _, p := range c.Replicas {
			if p.Offline || !p.Current {
				n.Behind = append(n.Behind, p.Name)
			}
		}
	}
	x.streams = append(x.streams, n)
}

// replicas returns how many the history has.
func (x *examination) replicas() int {
	for _, s := range x.streams {
		if s.Name == jetlog.StreamName(x.id, "events") {
			return cmp.Or(s.Replicas, 1)
		}
	}
	return 1
}

// sync asks a server how often it writes to disk, which it tells to users of the
// system account only; nil where it does not.
func (x *examination) sync(ctx context.Context) *doctor.Sync {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	m, err := x.nc.RequestWithContext(ctx, "$SYS.REQ.SERVER.PING.VARZ", nil)
	if err != nil {
		return nil
	}
	var told struct {
		Data struct {
			JetStream struct {
				Config struct {
					SyncInterval int64 `json:"sync_interval"` // in nanoseconds
					SyncAlways   bool  `json:"sync_always"`
				} `json:"config"`
			} `json:"jetstream"`
		} `json:"data"`
	}
	if json.Unmarshal(m.Data, &told) != nil {
		return nil
	}
	c := told.Data.JetStream.Config
	return &doctor.Sync{Always: c.SyncAlways, Interval: time.Duration(c.SyncInterval)}
}
