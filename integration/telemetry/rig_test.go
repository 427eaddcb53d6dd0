package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/otel/oteltest"
)

// patience bounds every wait; a busy machine needs it.
const patience = time.Minute

// programs builds the programs, once.
var programs = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "toolfleet-telemetry-"); err != nil {
		return "", err
	}
	for _, pkg := range []string{"../../cmd/toolfleet", "../../cmd/controller", "../../cmd/worker"} {
		if out, err := exec.Command("go", "build", "-o", dir+string(filepath.Separator), pkg).CombinedOutput(); err != nil {
			return dir, errors.Wrapf(err, "%s", out)
		}
	}
	return dir, nil
})

// rig is a fleet of processes whose telemetry goes to a sink.
type rig struct {
	*testing.T
	sink *oteltest.Sink
	log  *jetlog.Log
	url  string
	env  []string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if _, err := programs(); err != nil {
		t.Fatal(err)
	}
	e, err := jetlog.StartEmbedded(t.Context(), &jetlog.EmbeddedOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Shutdown(context.WithoutCancel(t.Context())) })
	nc, err := jetlog.Connect(t.Context(), &jetlog.ConnectOptions{URL: e.URL(), Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	r := &rig{T: t, sink: oteltest.NewSink(t), url: e.URL()}
	if r.log, err = jetlog.Open(t.Context(), nc, events.DefaultFleet, nil); err != nil {
		t.Fatal(err)
	}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "OTEL_") && !strings.HasPrefix(kv, "TRACE") {
			r.env = append(r.env, kv)
		}
	}
	r.env = append(r.env, "XDG_STATE_HOME="+t.TempDir(), "NATS_URL=", "TOOLFLEET_SERVER="+r.url,
		"OTEL_EXPORTER_OTLP_ENDPOINT="+r.sink.URL, "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_METRIC_EXPORT_INTERVAL=200",
		"OTEL_BLRP_SCHEDULE_DELAY=50")
	return r
}

// program is one that runs.
type program struct {
	*exec.Cmd
	output *output
	ended  chan struct{}
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start starts a program, which is ended with the test.
func (r *rig) start(name string, args ...string) *program {
	r.Helper()
	p := r.command(nil, name, args...)
	p.Stdout, p.Stderr = p.output, p.output
	if err := p.Start(); err != nil {
		r.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait() // how it ended is the test's to judge
	}()
	r.Cleanup(func() {
		p.stop(r, syscall.SIGTERM)
		if r.Failed() {
			r.Logf("%s said:\n%s", name, p.output)
		}
	})
	return p
}

func (r *rig) controller(data string) *program {
	r.Helper()
	return r.start("controller", "--id", "c1", "--data", data, "--http", "off")
}

// worker starts a worker and waits until it has joined.
func (r *rig) worker(data string) *program {
	r.Helper()
	head, err := r.log.Head(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	p := r.start("worker", "--id", "w1", "--data", data)
	r.await("joined", head.Seq, func(e *events.Record) bool { return e.Kind() == events.KindJoined })
	return p
}

func (r *rig) command(env []string, name string, args ...string) *program {
	dir, err := programs()
	if err != nil {
		r.Fatal(err)
	}
	c := exec.Command(filepath.Join(dir, name), args...)
	c.Env = append(slices.Clone(r.env), env...)
	return &program{c, &output{}, make(chan struct{})}
}

// stop ends a program and returns how long that took. It may be called again.
func (p *program) stop(r *rig, s syscall.Signal) time.Duration {
	began := time.Now()
	_ = p.Process.Signal(s) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(patience):
		r.Errorf("%s did not end", p.Path)
		_ = p.Process.Kill()
		<-p.ended
	}
	return time.Since(began)
}

// toolfleet runs the command line in a trace, which has the span of that id as
// its first.
func (r *rig) toolfleet(traceparent string, args ...string) {
	r.Helper()
	c := r.command([]string{"TRACEPARENT=" + traceparent}, "toolfleet", args...)
	if out, err := c.CombinedOutput(); err != nil {
		r.Fatalf("toolfleet %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// apply declares the test's server under an id.
func (r *rig) apply(traceparent string, id, delay string, flags ...string) {
	r.Helper()
	self, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	file := filepath.Join(r.TempDir(), "mcp.json")
	data, err := json.Marshal(map[string]any{"mcpServers": map[string]any{id: map[string]any{
		"command": self, "allowLiteral": []string{serverVariable, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_BSP_SCHEDULE_DELAY"},
		"env": map[string]string{
			serverVariable: delay, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": r.sink.URL + "/v1/traces",
			"OTEL_BSP_SCHEDULE_DELAY": "20", "TEST_TOKEN": "s3cret-variable",
		},
	}}})
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		r.Fatal(err)
	}
	r.toolfleet(traceparent, append([]string{"apply", "-f", file}, flags...)...)
}

// span waits for a span and returns it.
func (r *rig) span(what string, is func(*oteltest.Span) bool) oteltest.Span {
	r.Helper()
	for limit := time.Now().Add(patience); ; {
		spans := r.sink.Spans()
		for i := range spans {
			if is(&spans[i]) {
				return spans[i]
			}
		}
		if time.Now().After(limit) {
			r.Fatalf("no %s came; spans:\n%s", what, list(spans))
		}
		<-time.After(10 * time.Millisecond)
	}
}

// below waits for the span of that name whose parent is another.
func (r *rig) below(parent *oteltest.Span, name, kind string) oteltest.Span {
	r.Helper()
	return r.span(fmt.Sprintf("span %q (%s) below %q", name, kind, parent.Name), func(s *oteltest.Span) bool {
		return s.Name == name && s.Kind == kind && s.Parent == parent.ID && s.Trace == parent.Trace
	})
}

func list(spans []oteltest.Span) string {
	var b strings.Builder
	for _, s := range spans {
		fmt.Fprintf(&b, "%s %s %s < %s %s (%s) %v\n", s.Trace, s.ID, s.Service, s.Parent, s.Name, s.Kind, s.Attributes)
	}
	return b.String()
}

// event waits for the next event of a kind on a chain of a server, after a
// position.
func (r *rig) event(id string, k events.Kind, after events.Seq) events.Record {
	r.Helper()
	return r.await(string(k), after, func(e *events.Record) bool {
		return e.Kind() == k && e.Chain.Server() == events.ServerID(id)
	})
}

func (r *rig) await(what string, after events.Seq, is func(*events.Record) bool) events.Record {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	for e, err := range r.log.Follow(ctx, after, nil) {
		if err != nil {
			r.Fatalf("wait for %s: %v", what, err)
		}
		if is(&e) {
			return e
		}
	}
	r.Fatalf("no %s came", what)
	return events.Record{}
}

// link returns the link of that kind, which must be there once.
func (r *rig) link(s *oteltest.Span, kind string) oteltest.Link {
	r.Helper()
	var found []oteltest.Link
	for _, l := range s.Links {
		if l.Attributes["toolfleet.link.kind"] == kind {
			found = append(found, l)
		}
	}
	if len(found) != 1 {
		r.Fatalf("%s has %d links of kind %s: %v", s.Name, len(found), kind, s.Links)
	}
	return found[0]
}

// eventually waits until something holds.
func (r *rig) eventually(what string, holds func() bool) {
	r.Helper()
	for limit := time.Now().Add(patience); !holds(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(limit) {
			r.Fatalf("no %s came", what)
		}
	}
}
