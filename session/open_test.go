package session_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections/kvview"
	"github.com/toolfleet/toolfleet/session"
)

// TestMain begins the one goroutine that nats-server keeps for the process,
// outside every bubble.
func TestMain(m *testing.M) {
	ats.Register()
	os.Exit(m.Run())
}

// host is what a session finds on the bus: a history, its views and whoever
// answers calls.
type host struct {
	t    *testing.T
	nc   *nats.Conn
	log  *jetlog.Log
	tips map[events.Chain]events.Tip
	last events.Seq
}

// onHost runs a test in a bubble with a broker and a projector.
func onHost(t *testing.T, test func(t *testing.T, h *host)) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		log, err := jetlog.Open(t.Context(), s.Connect("worker"), events.DefaultFleet, &jetlog.Options{Writer: "worker/w"})
		if err != nil {
			t.Fatal(err)
		}
		withProjector(t, log, func() {
			test(t, &host{t: t, nc: s.Connect("session"), log: log, tips: make(map[events.Chain]events.Tip)})
		})
	})
}

func withProjector(t *testing.T, log *jetlog.Log, test func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	projected := make(chan error, 1)
	go func() { projected <- kvview.Project(ctx, log, nil) }()
	test()
	stop()
	if err := <-projected; err != nil {
		t.Error(err)
	}
}

func (h *host) tell(c events.Chain, epoch events.Epoch, bodies ...events.Body) {
	h.t.Helper()
	for _, b := range bodies {
		r, err := h.log.Append(h.t.Context(), events.Event{Chain: c, Body: b, Epoch: epoch}, h.tips[c])
		if err != nil {
			h.t.Fatal(err)
		}
		h.tips[c], h.last = r.Tip(), r.Seq
	}
}

// serve tells of a server whose instance 0 lists tools, under an epoch.
func (h *host) serve(id events.ServerID, epoch events.Epoch, tools ...string) {
	h.t.Helper()
	h.connecting(id, epoch)
	h.list(id, epoch, tools...)
}

func (h *host) open(o *session.Options) *session.Session {
	h.t.Helper()
	s, err := session.Open(h.t.Context(), h.nc, o)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(s.Close)
	return s
}

// await returns the session's tools when it has seen all that was told.
func (h *host) await(s *session.Session, count int) []session.Tool {
	h.t.Helper()
	if err := s.Wait(h.t.Context(), h.last); err != nil {
		h.t.Fatal(err)
	}
	synctest.Wait() // a list may come from the blob store
	tools, _ := s.Tools()
	if len(tools) != count {
		h.t.Fatalf("%d tools, want %d: %s", len(tools), count, names(tools))
	}
	return tools
}

func names(tools []session.Tool) string {
	var b strings.Builder
	for _, t := range tools {
		fmt.Fprintf(&b, "%s(%s) ", t.Name, t.State)
	}
	return strings.TrimSpace(b.String())
}

func TestASessionStaysCurrent(t *testing.T) {
	onHost(t, func(t *testing.T, h *host) {
		h.serve("git", 1, `{"name":"log","inputSchema":{"type":"object","minProperties":1.0}}`)
		s := h.open(nil)
		defer s.Close()
		tools := h.await(s, 1)
		if got := names(tools); got != "git__log(live)" || string(tools[0].InputSchema) != `{"type":"object","minProperties":1.0}` {
			t.Errorf("got %s with %s", got, tools[0].InputSchema)
		}
		drain(s)
		h.serve("db", 1, `{"name":"query"}`, `{"name":"explain"}`)
		<-s.Changes() // R22
		if got := names(h.await(s, 3)); got != "db__explain(live) db__query(live) git__log(live)" {
			t.Errorf("got %s", got)
		}
	})
}

// drain takes the session's signal, if there is one.
func drain(s *session.Session) {
	synctest.Wait()
	select {
	case <-s.Changes():
	default:
	}
}

// T7: a list that is too long for the views comes from the blob store, and is
// there when Open returns.
func TestALongListOfTools(t *testing.T) {
	onHost(t, func(t *testing.T, h *host) {
		var tools []string
		for i := range 300 {
			tools = append(tools, fmt.Sprintf(`{"name":"t%03d","description":%q}`, i, strings.Repeat("x", 1<<10)))
		}
		h.serve("big", 1, tools...)
		h.settle()
		s := h.open(nil)
		defer s.Close()
		if got, _ := s.Tools(); len(got) != 300 || got[299].Name != "big__t299" || len(got[299].Description) != 1<<10 {
			t.Errorf("got %d tools: %s", len(got), names(got))
		}
	})
}

// R28: sessions share what the process and the fleet have, and end only
// themselves.
func TestSessionsShareAWatch(t *testing.T) {
	onHost(t, func(t *testing.T, h *host) {
		h.serve("git", 1, `{"name":"log"}`)
		defer h.answer("git", 1, "one")()
		one := h.open(nil)
		h.await(one, 1)
		h.call(one, "git__log")
		one.Close() // leaves the connection's subscriptions for answers
		subscriptions := func() int {
			synctest.Wait()
			return h.nc.NumSubscriptions()
		}
		before := subscriptions()
		for range 3 {
			h.open(nil).Close()
		}
		first := h.open(nil)
		alone := subscriptions() - before
		others := []*session.Session{h.open(nil), h.open(nil), h.open(nil)}
		if all := subscriptions() - before; alone == 0 || all != alone {
			t.Errorf("one session has %d subscriptions, four have %d", alone, all)
		}
		first.Close()
		h.serve("db", 1, `{"name":"query"}`)
		for _, s := range others {
			h.await(s, 2)
			if got := h.call(s, "git__log"); got != `{"content":[],"by":"one"}` {
				t.Errorf("got %s", got)
			}
			s.Close()
		}
		if left := subscriptions() - before; left != 0 {
			t.Errorf("%d subscriptions are left", left)
		}
	})
}

func TestCallsOverTheBus(t *testing.T) {
	onHost(t, func(t *testing.T, h *host) {
		h.serve("git", 1, `{"name":"log"}`)
		s := h.open(nil)
		defer s.Close()
		h.await(s, 1)
		stopFirst := h.answer("git", 1, "one")
		if got := h.call(s, "git__log"); got != `{"content":[],"by":"one"}` {
			t.Errorf("got %s", got)
		}
		// The owner changes under the caller's feet: nobody responds any more.
		stopFirst()
		go func() {
			h.serve("git", 2, `{"name":"log"}`)
		}()
		defer h.answer("git", 2, "two")()
		if got := h.call(s, "git__log"); got != `{"content":[],"by":"two"}` {
			t.Errorf("got %s", got)
		}
	})
}

func (h *host) call(s *session.Session, name string) string {
	h.t.Helper()
	r, err := s.Call(h.t.Context(), name, nil, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(r.JSON)
}

// answer answers the calls of an instance until it is stopped.
func (h *host) answer(id events.ServerID, epoch events.Epoch, by string) (stop func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan error, 1)
	go func() {
		done <- h.log.ServeCalls(ctx, events.CallSubject(events.DefaultFleet, id, "0", epoch),
			func(context.Context, *callwire.Request, func(callwire.FrameKind, []byte)) ([]byte, error) {
				return fmt.Appendf(nil, `{"content":[],"by":%q}`, by), nil
			})
	}()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	}
}

func TestOpenWithoutABroker(t *testing.T) {
	onHost(t, func(t *testing.T, h *host) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := session.Open(ctx, h.nc, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		// One that failed does not stand in the way of the next.
		h.serve("git", 1, `{"name":"log"}`)
		s := h.open(nil)
		defer s.Close()
		h.await(s, 1)
	})
}
