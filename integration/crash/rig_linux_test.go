package crash

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/uuid"

	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/integration/invariants"
	"github.com/toolfleet/toolfleet/session"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

const fleetID = events.FleetID("f")

// within bounds what the tests wait for on a busy machine; nothing waits so long
// when all is well.
const within = time.Minute

// rig is a fleet of processes around a broker of the test's own.
type rig struct {
	t       *testing.T
	broker  *eventstest.Server
	ledger  *invariants.Ledger
	log     *jetlog.Log
	client  *client.Client
	session *session.Session
	mark    string
	records string
	views   func() error

	accepted []invariants.Accepted
	last     events.Seq
	servers  map[events.ServerID]bool
}

func newRig(t *testing.T) *rig {
	r := &rig{
		t: t, broker: eventstest.NewServer(t, &eventstest.ServerOptions{Listen: true}), ledger: &invariants.Ledger{},
		mark: uuid.NewString(), records: t.TempDir(), servers: make(map[events.ServerID]bool),
	}
	nc := r.broker.Connect("test")
	var err error
	if r.log, err = jetlog.Open(t.Context(), nc, fleetID, &jetlog.Options{Writer: "test"}); err != nil {
		t.Fatal(err)
	}
	r.client = client.New(nc, fleetID, &client.Options{AttemptTimeout: time.Second})
	if r.session, err = session.Open(t.Context(), nc, &session.Options{Fleet: fleetID, Wait: -1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.session.Close)
	if r.views, err = invariants.Watch(t.Context(), r.log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), within)
		defer cancel()
		head, _ := r.log.Head(ctx) // there may be nothing to show
		var all []events.Record
		for x, err := range r.log.Follow(ctx, 0, &jetlog.FollowOptions{Until: head.Seq}) {
			if err == nil {
				all = append(all, x)
			}
		}
		t.Log("\n" + eventstest.Lines(all))
	})
	return r
}

// process is a controller or a worker, with a line of its own to the broker. It
// keeps its folder and its id from one life to the next.
type process struct {
	r      *rig
	line   *invariants.Line
	args   []string
	worker events.WorkerID // or ""

	cmd  *exec.Cmd
	said *os.File
	done chan struct{}
}

// start starts a program, "controller" or "worker", and waits until it is part
// of the fleet.
func (r *rig) start(program, id string) *process {
	r.t.Helper()
	p := r.prepare(program, id)
	p.back()
	return p
}

// prepare returns a process that was not started yet.
func (r *rig) prepare(program, id string) *process {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	p := &process{r: r, line: invariants.NewLine(r.ledger), said: newOutput(r.t), args: []string{
		filepath.Join(bin, program), "--server", "nats://" + l.Addr().String(), "--fleet", string(fleetID),
		"--id", id, "--data", r.t.TempDir(),
	}}
	if program == "worker" {
		p.worker = events.WorkerID(id)
	}
	server := strings.TrimPrefix(r.broker.URL(), "nats://")
	go p.line.Serve(l, server)
	r.t.Cleanup(func() {
		p.kill()
		l.Close()
		if r.t.Failed() {
			r.t.Logf("%s %s said:\n%s", program, id, said(p.said))
		}
	})
	return p
}

// back starts the process and waits until it is part of the fleet.
func (p *process) back() {
	p.r.t.Helper()
	head, err := p.r.log.Head(p.r.t.Context())
	if err != nil {
		p.r.t.Fatal(err)
	}
	p.again()
	want := eventstest.On(events.FleetChain(), events.KindLedBy)
	if p.worker != "" {
		want = eventstest.On(events.WorkerChain(p.worker), events.KindJoined)
	}
	eventstest.Expect(p.r.t, p.r.log, head.Seq, want...)
}

// again starts the process.
func (p *process) again() {
	p.r.t.Helper()
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.Env = append(os.Environ(), "NATS_URL=", "TOOLFLEET_SERVER=", "TOOLFLEET_HTTP=off")
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	if err := p.cmd.Start(); err != nil {
		p.r.t.Fatal(err)
	}
	p.done = make(chan struct{})
	cmd, done := p.cmd, p.done
	go func() {
		_ = cmd.Wait() // it is killed, mostly
		close(done)
	}()
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it may be gone

// kill ends the process as kill -9 does, if it was started.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	p.signal(syscall.SIGKILL)
	<-p.done
}

// stop ends the process as Ctrl-C does.
func (p *process) stop() {
	p.r.t.Helper()
	p.signal(syscall.SIGINT)
	select {
	case <-p.done:
	case <-time.After(within):
		p.r.t.Errorf("%s does not stop", p.args[0])
	}
}

// dieAt kills the process when it sends a certain message: before it arrives, or
// after it is stored and before the process knows. It returns a function that
// waits for the death.
func (p *process) dieAt(stored bool, at func(*invariants.Publish) bool) (wait func()) {
	sprung := p.line.Set(invariants.Trap{At: at, Stored: stored, Then: func() { p.signal(syscall.SIGKILL) }})
	return func() {
		p.r.t.Helper()
		select {
		case <-sprung:
			<-p.done
			p.line.Open()
		case <-time.After(within):
			p.r.t.Fatalf("%s never came to the place", p.args[0])
		}
	}
}

// event is the place where an event of a kind is appended.
func event(k events.Kind) func(*invariants.Publish) bool {
	return func(p *invariants.Publish) bool {
		return strings.HasPrefix(p.Subject, "tf.evt.") && strings.HasPrefix(p.Header.Get("ce-type"), "dev.toolfleet."+string(k)+".")
	}
}

// to is the place of the n-th message to subjects that begin so.
func to(prefix string, n int) func(*invariants.Publish) bool {
	return func(p *invariants.Publish) bool {
		if strings.HasPrefix(p.Subject, prefix) {
			n--
		}
		return n == 0
	}
}

var viewPuts = "$KV." + jetlog.StreamName(fleetID, "views") + "."

// definition returns a stdio server, with what its processes are known by.
func (r *rig) definition(id events.ServerID, s mcptest.Script) *events.Definition {
	d := s.Definition(r.t)
	d.Env[invariants.RecordVariable] = string(r.record(id))
	d.Env[invariants.MarkVariable] = r.mark
	return &d
}

func (r *rig) record(id events.ServerID) invariants.Record {
	r.servers[id] = true
	return invariants.Record(filepath.Join(r.records, string(id)))
}

// ask makes a request until it is answered. The answer is remembered.
func (r *rig) ask(v request.Verb, id events.ServerID, d *events.Definition) {
	r.t.Helper()
	<-r.asking(v, id, d)
}

// asking makes a request, and closes the channel when it is answered.
func (r *rig) asking(v request.Verb, id events.ServerID, d *events.Definition) <-chan struct{} {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		ctx, cancel := context.WithTimeout(r.t.Context(), within)
		defer cancel()
		q := &request.Request{Verb: v, Server: string(id), Definition: d, ID: events.RequestID(uuid.NewString())}
		for {
			a, err := r.client.Do(ctx, q)
			switch {
			case errors.Is(err, client.ErrNoController) && ctx.Err() == nil:
				continue // it starts again soon
			case err != nil:
				r.t.Errorf("%s %s: %v", v, id, err)
				return
			}
			r.accepted = append(r.accepted, invariants.Accepted{Server: id, ID: q.ID, Answer: a})
			r.last = max(r.last, a.Seq)
			return
		}
	}()
	return answered
}

// ready waits until servers are ready, as all that was asked wants them.
func (r *rig) ready(ids ...events.ServerID) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	if err := errors.CombineErrors(r.session.Wait(ctx, r.last), r.session.WaitReady(ctx, ids...)); err != nil {
		r.t.Fatal(err)
	}
}

// saw waits for an event of an instance after a position, and returns it.
func (r *rig) saw(after events.Seq, id events.ServerID, k events.Kind) events.Record {
	r.t.Helper()
	return eventstest.Expect(r.t, r.log, after, eventstest.On(events.InstanceChain(id, "0"), k)...)[0]
}

// settled waits until what was asked of every server has ended, and checks what
// must hold.
func (r *rig) settled() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	for {
		err := invariants.Requests(ctx, r.log, r.accepted)
		if err == nil {
			break
		}
		select {
		case <-r.session.Changes():
		case <-time.After(100 * time.Millisecond): // an outcome that changes no tool
		case <-ctx.Done():
			r.t.Fatal(err)
		}
	}
	for _, err := range []error{
		r.ledger.Check(ctx, r.log),
		invariants.Views(ctx, r.log),
		invariants.Sessions(ctx, r.log, map[string]*session.Session{"test": r.session}),
	} {
		if err != nil {
			r.t.Error(err)
		}
	}
	for id := range r.servers {
		if err := r.record(id).Check(); err != nil {
			r.t.Error(err)
		}
	}
}

// ended stops everything, and checks what must hold then.
func (r *rig) ended(all ...*process) {
	r.t.Helper()
	for _, p := range all {
		p.stop()
	}
	if err := errors.CombineErrors(r.views(), invariants.NoneLeft(r.mark)); err != nil {
		r.t.Error(err)
	}
}

// starts fails unless a server was started so often.
func (r *rig) starts(id events.ServerID, want int) {
	r.t.Helper()
	if n, err := r.record(id).Starts(); err != nil || n != want {
		r.t.Errorf("%s was started %d times, want %d; %v", id, n, want, err)
	}
}

// newOutput returns a file for what a process writes. With a file the end of the
// process is seen at once, also while a descendant has it open.
func newOutput(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "output")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func said(f *os.File) string {
	data, err := os.ReadFile(f.Name())
	if err != nil {
		return err.Error()
	}
	return string(data)
}
