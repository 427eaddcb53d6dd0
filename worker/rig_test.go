package worker

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// The log is what a worker stands on.
var (
	_ Journal = (*jetlog.Log)(nil)
	_ Inbox   = (*jetlog.Log)(nil)
	_ Blobs   = (*jetlog.Log)(nil)
	_ Calls   = (*jetlog.Log)(nil)
	_ Lease   = (*jetlog.Lease)(nil)
)

// rig is a worker on a history in memory, and the hands of a controller.
type rig struct {
	t       *testing.T
	memory  *eventstest.Memory
	log     *eventstest.MemoryLog // the controller's
	lease   *testLease
	calls   *testCalls
	secrets testSecrets
	logs    *testLogs
	spawner Spawner // nil is the default
	options Options

	stop   context.CancelFunc
	ended  chan struct{}
	err    error
	tips   map[events.Chain]events.Tip
	orders map[events.Address]events.Seq
}

const (
	testWorker      = events.WorkerID("w")
	testIncarnation = events.Incarnation("life-1")
)

// newRig starts nothing yet.
func newRig(t *testing.T) *rig {
	r := &rig{
		t: t, memory: eventstest.NewMemory("f"), lease: &testLease{remaining: time.Hour},
		calls: &testCalls{served: make(map[string]*served)}, secrets: testSecrets{}, logs: &testLogs{},
		tips: make(map[events.Chain]events.Tip), orders: make(map[events.Address]events.Seq),
	}
	r.log = r.memory.Open("controller")
	r.options = Options{
		Fleet: "f", ID: testWorker, Incarnation: testIncarnation, Host: "host", Env: os.LookupEnv,
		Limits: Limits{Drain: 10 * time.Second, LastWords: 10 * time.Second},
		Logger: slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	return r
}

// start runs the worker until the test ends, or stops it.
func (r *rig) start() {
	r.t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(r.t.Context()))
	r.stop, r.ended = stop, make(chan struct{})
	parts := Parts{
		Journal: r.memory.Open("worker"), Inbox: r.memory.Open("worker"), Blobs: r.memory.Open("worker"),
		Lease: r.lease, Calls: r.calls, Secrets: r.secrets, Spawner: r.spawner,
	}
	go func() {
		defer close(r.ended)
		r.err = Run(ctx, parts, &r.options)
	}()
	r.t.Cleanup(func() {
		r.memory.SetOutage(eventstest.NoOutage)
		r.stop()
		wait(r.t, r.ended, "the worker to end")
		if r.t.Failed() {
			r.t.Logf("history:\n%s\nlog:\n%s", r.history(), r.logs)
		}
	})
}

// history describes what is stored, also when the test's context has ended.
func (r *rig) history() string {
	ctx := context.WithoutCancel(r.t.Context())
	head, err := r.log.Head(ctx)
	if err != nil {
		return err.Error()
	}
	var all []events.Record
	for rec, err := range r.log.Follow(ctx, 0, &jetlog.FollowOptions{Until: head.Seq}) {
		if err != nil {
			return err.Error()
		}
		all = append(all, rec)
	}
	return eventstest.Lines(all)
}

// finish stops the worker and returns its error.
func (r *rig) finish() error {
	r.t.Helper()
	r.stop()
	wait(r.t, r.ended, "the worker to end")
	return r.err
}

// write appends as a controller does.
func (r *rig) write(e events.Event) {
	r.t.Helper()
	for range 100 {
		for rec, err := range r.log.ReadChain(r.t.Context(), e.Chain, r.tips[e.Chain]) {
			if err != nil {
				r.t.Fatal(err)
			}
			r.tips[e.Chain] = rec.Tip()
		}
		rec, err := r.log.Append(r.t.Context(), e, r.tips[e.Chain])
		if errors.Is(err, events.ErrConflict) {
			continue
		}
		if err != nil {
			r.t.Fatal(err)
		}
		r.tips[e.Chain] = rec.Tip()
		return
	}
	r.t.Fatal("no end of conflicts")
}

func (r *rig) assign(s events.ServerID, e events.Epoch) {
	r.t.Helper()
	r.write(events.Event{
		Chain: events.InstanceChain(s, "0"), Epoch: e,
		Body: events.Assigned{Worker: testWorker, Incarnation: testIncarnation, Epoch: e},
	})
}

// command sends a command; what is empty in it is filled in.
func (r *rig) command(s events.ServerID, c events.Command) {
	r.t.Helper()
	a := events.Address{Worker: testWorker, Server: s, Instance: "0"}
	if c.Incarnation == "" {
		c.Incarnation = testIncarnation
	}
	if c.Epoch == 0 {
		c.Epoch = 1
	}
	if c.Definition != nil {
		c.Want, c.Digest = events.Running, c.Definition.Digest()
	} else {
		c.Want = events.Stopped
	}
	seq, err := r.log.PutCommand(r.t.Context(), a, &c, r.orders[a])
	if err != nil {
		r.t.Fatal(err)
	}
	r.orders[a] = seq
}

// run assigns a server to the worker and has it run.
func (r *rig) run(s events.ServerID, d events.Definition) {
	r.t.Helper()
	r.assign(s, 1)
	r.command(s, events.Command{Definition: &d, Generation: 1})
}

// see waits for events of a server's instance, after a position.
func (r *rig) see(s events.ServerID, after events.Seq, kinds ...events.Kind) []events.Record {
	r.t.Helper()
	return eventstest.Expect(r.t, r.log, after, eventstest.On(events.InstanceChain(s, "0"), kinds...)...)
}

func (r *rig) stored() []events.Record { return eventstest.Stored(r.t, r.log, 0) }

// kinds returns what the chain of an instance says.
func (r *rig) kinds(s events.ServerID) string {
	r.t.Helper()
	var all []string
	for _, rec := range r.stored() {
		if rec.Chain == events.InstanceChain(s, "0") {
			all = append(all, string(rec.Kind()))
		}
	}
	return strings.Join(all, " ")
}

// last returns the last record, as a body.
func last[T events.Body](t *testing.T, records []events.Record) T {
	t.Helper()
	b, ok := records[len(records)-1].Body.(T)
	if !ok {
		t.Fatalf("the last event is %s", records[len(records)-1].Kind())
	}
	return b
}

// testLease is a lease that a test ends and gives back.
type testLease struct {
	mu        sync.Mutex
	remaining time.Duration
}

func (l *testLease) Remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.remaining
}

func (l *testLease) set(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remaining = d
}

// testSecrets are values by reference.
type testSecrets map[string]string

func (s testSecrets) Get(_ context.Context, ref string) (string, error) {
	if v, ok := s[ref]; ok {
		return v, nil
	}
	return "", errors.New("no such secret")
}

// testCalls hands calls to whoever serves their subject.
type testCalls struct {
	mu     sync.Mutex
	served map[string]*served
}

// served is one subject, with its calls that run.
type served struct {
	handle  CallHandler
	running sync.WaitGroup
}

func (c *testCalls) ServeCalls(ctx context.Context, subject string, h CallHandler) error {
	s := &served{handle: h}
	c.mu.Lock()
	c.served[subject] = s
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	delete(c.served, subject)
	c.mu.Unlock()
	s.running.Wait()
	return nil
}

// begin returns the handler of a subject, for one call that is to be ended, or
// nil.
func (c *testCalls) begin(subject string) (h CallHandler, end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.served[subject]
	if s == nil {
		return nil, nil
	}
	s.running.Add(1)
	return s.handle, s.running.Done
}

// call is what came of a call.
type call struct {
	result   string
	progress []string
	err      *callwire.Error
}

// call calls a tool of a server in epoch 1, as soon as calls are served.
func (r *rig) call(ctx context.Context, s events.ServerID, tool, arguments string) call {
	r.t.Helper()
	return r.request(ctx, events.CallSubject("f", s, "0", 1),
		&callwire.Request{ID: "call-" + tool, Tool: tool, Arguments: jsontext.Value(arguments)})
}

// ask makes another request of a server than a call of a tool.
func (r *rig) ask(ctx context.Context, s events.ServerID, method, target, params string) call {
	r.t.Helper()
	return r.request(ctx, events.CallSubject("f", s, "0", 1), &callwire.Request{
		ID: "call-" + target, Method: method, Tool: target, Arguments: jsontext.Value(params), Actor: "zoe",
	})
}

// request sends a request to whoever answers at a subject.
func (r *rig) request(ctx context.Context, subject string, q *callwire.Request) call {
	r.t.Helper()
	var h CallHandler
	var end func()
	eventually(r.t, "calls to be served", func() bool {
		h, end = r.calls.begin(subject)
		return h != nil
	})
	defer end()
	var out call
	result, err := h(ctx, q, func(k callwire.FrameKind, data []byte) {
		out.progress = append(out.progress, string(k)+" "+string(data))
	})
	out.result = string(result)
	if err != nil && !errors.As(err, &out.err) {
		r.t.Errorf("%s: %v is no outcome", q.Tool, err)
	}
	return out
}

// testLogs is a log that is shown when a test fails.
type testLogs struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *testLogs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *testLogs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
