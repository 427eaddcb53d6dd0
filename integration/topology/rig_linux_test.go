//go:build topology

package topology

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/integration/invariants"
	"github.com/toolfleet/toolfleet/session"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

// within bounds what the tests wait for on a busy machine; nothing waits so long
// when all is well.
const within = 90 * time.Second

// slack is by how much a time may miss its bound on a machine that does other
// things as well. The promise itself is looked at by .ci/bench.
const slack = 10

// rig is the fleet of the compose file.
type rig struct {
	t         *testing.T
	dir       string
	nodes     []*part
	parts     map[string]*part // all, by service
	telemetry *telemetry
	ledger    *invariants.Ledger
	fleet     events.FleetID

	nc       *nats.Conn
	js       jetstream.JetStream
	log      *jetlog.Log
	client   *client.Client
	sessions map[string]*session.Session
	views    func() error
	mark     string

	mu       sync.Mutex // guards what follows
	accepted []invariants.Accepted
	servers  map[events.ServerID]bool

	calls invariants.Calls
	named int // calls of the test itself
}

// newRig starts the services, each when those it depends on are healthy.
func newRig(t *testing.T) *rig {
	t.Helper()
	token := rand.Text()
	p := project(t, token)
	l := newLAN(t, p)
	r := &rig{
		t: t, dir: t.TempDir(), parts: make(map[string]*part), ledger: &invariants.Ledger{}, telemetry: newTelemetry(t, l),
		sessions: make(map[string]*session.Session), mark: uuid.NewString(), servers: make(map[events.ServerID]bool),
	}
	for _, what := range []string{"nats", "controller", "worker"} {
		for _, s := range named(p, what) {
			r.parts[s.Name] = newPart(t, l, s, r.dir)
			if what == "nats" {
				r.nodes = append(r.nodes, r.parts[s.Name])
			} else {
				r.parts[s.Name].listen(r.nodes, r.ledger)
			}
		}
	}
	r.each("nats", (*part).start)
	r.each("nats", r.healthy)
	r.fleet = events.FleetID(*p.Services["controller-1"].Environment["TOOLFLEET_FLEET"])
	r.attach(l, token)
	r.each("controller", (*part).start)
	r.each("worker", (*part).start)
	r.each("controller", r.healthy)
	r.each("worker", r.healthy)
	r.open()
	return r
}

// each does something to all services of a role.
func (r *rig) each(what string, do func(*part)) {
	for name, p := range r.parts {
		if role(name) == what {
			do(p)
		}
	}
}

// healthy waits until a service says that it is well.
func (r *rig) healthy(p *part) {
	r.t.Helper()
	r.eventually(p.service.Name+" to be healthy", p.healthy)
}

// eventually asks until there is no error; other processes give no other sign.
func (r *rig) eventually(what string, ask func() error) {
	r.t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("waited %v for %s: %v", within, what, err)
		}
	}
}

// attach connects the test itself, as a program on the host of the containers.
func (r *rig) attach(l *lan, token string) {
	r.t.Helper()
	var urls []string
	for _, n := range r.nodes {
		urls = append(urls, "nats://"+token+"@"+l.address(n.service.Name)+":4222")
	}
	var err error
	if r.nc, err = jetlog.Connect(r.t.Context(), &jetlog.ConnectOptions{URL: strings.Join(urls, ","), Name: "test"}); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(r.nc.Close)
	if r.js, err = jetstream.New(r.nc); err != nil {
		r.t.Fatal(err)
	}
	r.client = client.New(r.nc, r.fleet, &client.Options{AttemptTimeout: 500 * time.Millisecond})
}

// open opens the log and two sessions, and watches the views from now on.
func (r *rig) open() {
	r.t.Helper()
	var err error
	if r.log, err = jetlog.Open(r.t.Context(), r.nc, r.fleet, &jetlog.Options{Writer: "test", Replicas: len(r.nodes)}); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if r.t.Failed() {
			r.tell()
		}
	})
	for _, id := range []string{"agent-1", "agent-2"} {
		r.eventually("the views", func() error {
			s, err := session.Open(r.t.Context(), r.nc, &session.Options{Fleet: r.fleet, ID: id, Wait: -1})
			r.sessions[id] = s
			return err
		})
		r.t.Cleanup(r.sessions[id].Close)
	}
	if r.views, err = invariants.Watch(r.t.Context(), r.log); err != nil {
		r.t.Fatal(err)
	}
}

// tell shows the history's last events.
func (r *rig) tell() {
	const most = 120
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), 10*time.Second)
	defer cancel()
	head, err := r.log.Head(ctx)
	if err != nil {
		r.t.Logf("the history cannot be read: %v", err)
		return
	}
	var all []events.Record
	for x, err := range r.log.Follow(ctx, head.Seq-min(head.Seq, most), &jetlog.FollowOptions{Until: head.Seq}) {
		if err == nil {
			all = append(all, x)
		}
	}
	r.t.Log("the last events:\n" + eventstest.Lines(all))
}

// definition returns a stdio server, with what its processes are known by, and a
// tool that notes each call.
func (r *rig) definition(id events.ServerID, more ...string) *events.Definition {
	d := mcptest.Script{Tools: append([]string{"note"}, more...), Record: r.noted(id)}.Definition(r.t)
	d.Env[invariants.RecordVariable] = string(r.record(id))
	d.Env[invariants.MarkVariable] = r.mark
	return &d
}

// record is where the processes of a server note that they start.
func (r *rig) record(id events.ServerID) invariants.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.servers[id] = true
	return invariants.Record(filepath.Join(r.dir, "started-"+string(id)))
}

// noted is where the tools of a server note that they are called.
func (r *rig) noted(id events.ServerID) string { return filepath.Join(r.dir, "called-"+string(id)) }

// ask makes a request until it is answered, and remembers the answer.
func (r *rig) ask(v request.Verb, id events.ServerID, d *events.Definition) request.Answer {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), within)
	defer cancel()
	q := &request.Request{Verb: v, Server: string(id), Definition: d, ID: events.RequestID(uuid.NewString())}
	a, err := r.client.Do(ctx, q)
	if err != nil {
		r.t.Errorf("%s %s: %v", v, id, err)
		return a
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted = append(r.accepted, invariants.Accepted{Server: id, ID: q.ID, Answer: a})
	return a
}

// ready waits until servers are ready in both sessions, as all requests made so
// far want them.
func (r *rig) ready(ids ...events.ServerID) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	r.mu.Lock()
	var seq events.Seq
	for _, x := range r.accepted {
		seq = max(seq, x.Answer.Seq)
	}
	r.mu.Unlock()
	for name, s := range r.sessions {
		if err := errors.CombineErrors(s.Wait(ctx, seq), s.WaitReady(ctx, ids...)); err != nil {
			r.t.Fatalf("%s: %v", name, err)
		}
	}
}
