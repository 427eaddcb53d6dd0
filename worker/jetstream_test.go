package worker

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

// The whole worker on the real log: a child that is started, called over the
// bus, dies while the log is away, and comes back when it is back.
func TestWorkerOnJetStream(t *testing.T) {
	record := mcptest.NewRecord(t)
	server := eventstest.NewServer(t, nil)
	open := func(writer string) *jetlog.Log {
		l, err := jetlog.Open(t.Context(), server.Connect(writer), "f", &jetlog.Options{Writer: writer})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	controller, log := open("controller"), open("worker/w")
	lease, err := log.Acquire(t.Context(), "worker.w", jetlog.Holder{Folder: "folder", Incarnation: testIncarnation}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	defer stop()
	renewed, ended := make(chan error, 1), make(chan error, 1)
	go func() { renewed <- lease.Run(ctx) }()
	go func() {
		ended <- Run(ctx, Parts{Journal: log, Inbox: log, Lease: lease, Blobs: log, Calls: log},
			&Options{Fleet: "f", ID: testWorker, Incarnation: testIncarnation})
	}()

	chain := events.InstanceChain("s", "0")
	_, err = controller.Append(t.Context(), events.Event{
		Chain: chain, Epoch: 1, Body: events.Assigned{Worker: testWorker, Incarnation: testIncarnation, Epoch: 1},
	}, events.Tip{})
	if err != nil {
		t.Fatal(err)
	}
	d := mcptest.Script{Tools: mcptest.Special, Record: record.Path()}.Definition(t)
	to := events.Address{Worker: testWorker, Server: "s", Instance: "0"}
	first, err := controller.PutCommand(t.Context(), to, &events.Command{
		Want: events.Running, Definition: &d, Digest: d.Digest(), Generation: 1, Incarnation: testIncarnation, Epoch: 1,
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := eventstest.Expect(t, controller, 0, eventstest.On(chain, events.KindConnecting, events.KindConnected, ready)...)

	subject := events.CallSubject("f", "s", "0", 1)
	call := func(tool, arguments string) (string, []string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), hangLimit)
		defer cancel()
		var progress []string
		var data []byte
		var err error
		for end := time.Now().Add(hangLimit); ; {
			data, err = controller.Call(ctx, subject, &callwire.Request{Tool: tool, Arguments: []byte(arguments)},
				func(f *callwire.Frame) { progress = append(progress, string(f.Data)) })
			// The list is stored an instant before calls are served, and after an
			// outage the worker needs another one to be back.
			var e *callwire.Error
			if !errors.As(err, &e) || e.Outcome != callwire.NotExecuted || time.Now().After(end) {
				return string(data), progress, err
			}
		}
	}
	if got, _, err := call("odd", "{}"); err != nil || got != mcptest.OddResult {
		t.Errorf("odd: %s, %v", got, err)
	}
	if got, _, err := call("big", `{"bytes":5000000}`); err != nil || len(got) < 5_000_000 {
		t.Errorf("big: %d bytes, %v", len(got), err)
	}
	_, progress, err := call("progress", `{"times":2}`)
	if err != nil || len(progress) != 2 || !strings.Contains(progress[1], `"progress":2`) {
		t.Errorf("progress %q, %v", progress, err)
	}

	server.Stop()
	pid := record.Started()[0]
	if running := record.Running(); len(running) != 1 || running[0] != pid {
		t.Errorf("an outage stopped what ran: %v", running)
	}
	// What is sent on a connection that has broken unnoticed is lost.
	eventually(t, "the outage to be noticed", func() bool { return !controller.Conn().IsConnected() && !log.Conn().IsConnected() })
	server.Start()
	if _, _, err := call("die", "{}"); err == nil {
		t.Error("die answered")
	}
	seen = eventstest.Expect(t, controller, seen[2].Seq, eventstest.On(chain,
		events.KindFailed, events.KindRestartScheduled, events.KindConnecting, events.KindConnected, ready, events.KindRestarted)...)
	if _, err := controller.PutCommand(t.Context(), to, &events.Command{
		Want: events.Stopped, Generation: 2, Incarnation: testIncarnation, Epoch: 1,
	}, first); err != nil {
		t.Fatal(err)
	}
	eventstest.Expect(t, controller, seen[5].Seq, eventstest.On(chain, events.KindStopping, events.KindStopped)...)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := <-renewed; err != nil {
		t.Error(err)
	}
	var kinds []string
	for _, r := range eventstest.Stored(t, controller, 0) {
		kinds = append(kinds, string(r.Kind()))
	}
	want := strings.Fields("joined assigned connecting connected tools-listed failed restart-scheduled connecting connected tools-listed restarted stopping stopped left")
	if kinds[0] == "assigned" { // whoever was first
		kinds[0], kinds[1] = kinds[1], kinds[0]
	}
	if d := cmp.Diff(want, kinds); d != "" {
		t.Errorf("history (-want +got):\n%s", d)
	}
}

// T10: logs go over the real bus to whoever visits it, as they come, and no
// message of it holds a secret.
func TestLogsOnJetStream(t *testing.T) {
	server := eventstest.NewServer(t, nil)
	log, err := jetlog.Open(t.Context(), server.Connect("worker"), "f", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := testShelf(t)
	h := &host{logs: s, parts: Parts{Calls: log}, options: Options{Fleet: "f", ID: testWorker, Logger: slog.New(slog.DiscardHandler)}}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() { defer close(served); h.serveLogs(ctx) }()
	defer func() { stop(); <-served }()

	r := h.record(events.Address{Worker: testWorker, Server: "s", Instance: "0"}, Ref{Epoch: 1, Attempt: 1})
	defer r.close(hangLimit)
	stderr := r.stderr(newScrubber([]string{"canary-1234"}))
	say := func(text string) { _, _ = stderr.Write([]byte(text)) }
	say("first canary-1234\n")

	guest, err := jetlog.Visit(server.Connect("guest"), "f")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(ctx context.Context, arguments string, heard func(*callwire.Frame)) error {
		_, err := guest.Call(ctx, events.LogsSubject("f", testWorker), &callwire.Request{
			Tool: callwire.LogsTool, Arguments: []byte(arguments),
		}, heard)
		return err
	}
	// Until it is served, nobody is there; who listens to everything would be somebody.
	eventually(t, "logs to be served", func() bool { return ask(t.Context(), `{"server":"s","instance":"0"}`, nil) == nil })
	var bus testLogs
	sniffer := server.Connect("sniffer")
	if _, err := sniffer.Subscribe(">", func(m *nats.Msg) { _, _ = bus.Write(m.Data) }); err != nil {
		t.Fatal(err)
	}
	if err := sniffer.Flush(); err != nil {
		t.Fatal(err)
	}
	follow, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	err = ask(follow, `{"server":"s","instance":"0","tail":-1,"follow":true}`, func(f *callwire.Frame) {
		lines, _ := callwire.DecodeLogLines(f.Data)
		for _, l := range lines {
			if got = append(got, l.Text); len(got) == 1 {
				say("second canary-1234\n")
			} else {
				cancel()
			}
		}
	})
	if d := cmp.Diff([]string{"first [redacted]", "second [redacted]"}, got); d != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, lines (-want +got):\n%s", err, d)
	}
	eventually(t, "the bus to be seen", func() bool { return strings.Contains(bus.String(), "second [redacted]") })
	if strings.Contains(bus.String(), "canary") {
		t.Errorf("a secret is on the bus:\n%s", &bus)
	}
}
