package client_test

import (
	"context"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolfleet/toolfleet/controller"
	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/otel"
)

const fleet events.FleetID = "f"

// source is the log as a controller reads it.
type source struct{ *jetlog.Log }

func (s source) Follow(ctx context.Context, after events.Seq) iter.Seq2[events.Record, error] {
	return s.Log.Follow(ctx, after, nil)
}

func open(t *testing.T, nc *nats.Conn, writer string) *jetlog.Log {
	t.Helper()
	l, err := jetlog.Open(t.Context(), nc, fleet, &jetlog.Options{Writer: writer})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// control runs a controller until it is stopped, or the test ends.
func control(t *testing.T, s *eventstest.Server, name string) (stop func()) {
	t.Helper()
	l := open(t, s.Connect(name), "controller/"+name)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- controller.Run(ctx, controller.Parts{
			Journal: l, Source: source{l}, Orders: l, APIs: []controller.API{controller.NATS(l.Conn(), fleet)},
		}, nil)
	}()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("controller %s: %v", name, err)
		}
		ended <- nil // for a second stop
	}
	t.Cleanup(stop)
	return stop
}

// within bounds a request, in the fake time of a bubble.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// M7, over the wire: every verb, and every refusal as what it is.
func TestClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		control(t, s, "one")
		l := open(t, s.Connect("test"), "test")
		c := client.New(s.Connect("client"), fleet, &client.Options{Actor: "ann@host"})
		ctx := within(t, time.Minute)

		x, y := &events.Definition{Command: "x"}, &events.Definition{Command: "y"}
		var seq events.Seq
		for i, step := range []struct {
			kind events.Kind
			ask  func() (request.Answer, error)
		}{
			{events.KindDeclared, func() (request.Answer, error) {
				return c.Declare(ctx, "s", x, &client.RequestOptions{ID: "r", Reason: "because"})
			}},
			{events.KindUpdated, func() (request.Answer, error) { return c.Declare(ctx, "s", y, nil) }},
			{events.KindRestartRequested, func() (request.Answer, error) { return c.Restart(ctx, "s", nil) }},
			{events.KindStopRequested, func() (request.Answer, error) { return c.Stop(ctx, "s", nil) }},
			{events.KindStartRequested, func() (request.Answer, error) { return c.Start(ctx, "s", nil) }},
			{events.KindDisabled, func() (request.Answer, error) { return c.Disable(ctx, "s", nil) }},
			{events.KindEnabled, func() (request.Answer, error) { return c.Enable(ctx, "s", nil) }},
			{events.KindWithdrawn, func() (request.Answer, error) { return c.Withdraw(ctx, "s", nil) }},
		} {
			a, err := step.ask()
			if err != nil {
				t.Fatalf("%s: %v", step.kind, err)
			}
			r := eventstest.Expect(t, l, seq, eventstest.On(events.ServerChain("s"), step.kind)...)[0]
			if a.Seq != r.Seq || a.Repeated || a.Unchanged || r.Actor != "ann@host" || r.Correlation == "" {
				t.Errorf("%s: answer is %+v, event %+v", step.kind, a, r.Event)
			}
			if i == 0 && (r.Correlation != "r" || r.Reason != "because" || r.Source != "toolfleet/f/controller/one") {
				t.Errorf("event is %+v", r.Event)
			}
			seq = r.Seq
		}

		if _, err := c.Start(ctx, "s", nil); !errors.Is(err, request.ErrUnknownServer) || !strings.Contains(err.Error(), `"s"`) {
			t.Errorf("error of a withdrawn server is %v", err)
		}
		_, err := c.Declare(ctx, "s", &events.Definition{Command: "x", URL: "https://x.test"}, nil)
		var e *request.Error
		if !errors.As(err, &e) || e.Code != request.InvalidDefinition || e.Seq != seq+1 || len(e.Problems) != 1 || e.Problems[0].Path != "/url" {
			t.Errorf("error of a bad definition is %+v", err)
		}
		if _, err := c.Declare(ctx, "no id", x, nil); !errors.Is(err, request.ErrInvalidDefinition) {
			t.Errorf("error of a bad id is %v", err)
		}
		if _, err := c.Stop(ctx, "s", &client.RequestOptions{ID: "r"}); !errors.Is(err, request.ErrRequestReused) {
			t.Errorf("error of a used id is %v", err)
		}
		if a, err := c.Declare(ctx, "s", x, &client.RequestOptions{ID: "r"}); err != nil || a != (request.Answer{Seq: 1, Repeated: true}) {
			t.Errorf("answer to a repeat is %+v, %v", a, err)
		}
	})
}

// Secrets never leave the client as they are: neither on the bus nor in the
// history. The fleet's own store takes each of their keys.
func TestSecretsAreMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		control(t, s, "one")
		l := open(t, s.Connect("test"), "test")
		secrets, err := l.Secrets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		identity, err := jetlog.LoadOrCreateIdentity(filepath.Join(t.TempDir(), "identity"))
		if err != nil {
			t.Fatal(err)
		}
		if err := secrets.Adopt(t.Context(), identity); err != nil {
			t.Fatal(err)
		}
		spy, err := s.Connect("spy").SubscribeSync("tf.>")
		if err != nil {
			t.Fatal(err)
		}
		const canary = "cAnary7Qx81"
		d := events.Definition{
			URL:     "https://u:" + canary + "@x.test/s/" + canary + "9f8e7d6c5b4a/mcp?key=" + canary + "&key=b" + canary + "&a.b=" + canary + "#" + canary,
			Headers: map[string]string{"Authorization": "Bearer " + canary, "X.Y": canary},
			Env:     map[string]string{"TOKEN": canary, "A B": canary}, Args: []string{"--token", canary},
			Unknown: []byte(`{"password":"` + canary + `"}`),
		}
		c := client.New(s.Connect("client"), fleet, &client.Options{Secrets: secrets})
		ctx := within(t, time.Minute)
		if _, err := c.Declare(ctx, "s", &d, nil); err != nil {
			t.Fatal(err)
		}
		// Where there is no store for them, they are sent to nobody.
		if _, err := client.New(s.Connect("client"), fleet, nil).Declare(ctx, "t", &d, nil); !errors.Is(err, client.ErrNoSecretStore) {
			t.Errorf("error without a store is %v", err)
		}
		if _, err := c.Declare(ctx, "no id", &d, nil); !errors.Is(err, request.ErrInvalidDefinition) {
			t.Errorf("error of a bad id is %v", err)
		}
		synctest.Wait()
		seen := 0
		for {
			m, err := spy.NextMsg(time.Second)
			if err != nil {
				break
			}
			seen++
			if strings.Contains(string(m.Data), canary) {
				t.Errorf("%s holds the secret: %s", m.Subject, m.Data)
			}
		}
		if seen < 4 {
			t.Errorf("only %d messages were seen", seen)
		}
		declared := eventstest.Expect(t, l, 0, eventstest.On(events.ServerChain("s"), events.KindDeclared)...)[0]
		got := declared.Body.(events.Declared).Definition
		value, err := secrets.Get(ctx, got.Env["TOKEN"], identity)
		if err != nil || value != canary {
			t.Errorf("%s is %q, %v", got.Env["TOKEN"], value, err)
		}
		// The same values again are the same definition.
		if a, err := c.Declare(ctx, "s", &d, nil); err != nil || !a.Unchanged {
			t.Errorf("answer to the same is %+v, %v", a, err)
		}
	})
}

// The API is a micro service like any other: it can be found, and asked by hand.
func TestService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		control(t, s, "one")
		nc := s.Connect("hand")
		if _, err := client.New(nc, fleet, nil).Stop(within(t, time.Minute), "s", nil); !errors.Is(err, request.ErrUnknownServer) {
			t.Fatal(err) // and now it is there
		}
		m, err := nc.Request("$SRV.INFO."+controller.ServiceName, nil, time.Second)
		if err != nil || !strings.Contains(string(m.Data), "tf.api.f.declare") {
			t.Errorf("the service says %v, %v", m, err)
		}
		for body, want := range map[string]request.Code{
			`{`: request.InvalidRequest, `{"server":"s"}`: request.InvalidRequest, `{"server":"s","request":"r","definition":{}}`: request.InvalidRequest,
			`{"server":"s","request":"r"}`: request.UnknownServer,
		} {
			m, err := nc.Request("tf.api.f.stop", []byte(body), time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Header.Get(micro.ErrorCodeHeader); got != string(want) || m.Header.Get(micro.ErrorHeader) == "" {
				t.Errorf("%s: %v %s", body, m.Header, m.Data)
			}
		}
	})
}

func TestTooLargeForTheBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, &eventstest.ServerOptions{MaxPayload: 1000})
		c := client.New(s.Connect("client"), fleet, nil)
		d := events.Definition{Command: "x", Args: []string{strings.Repeat("word ", 1000)}}
		if _, err := c.Declare(within(t, time.Minute), "s", &d, nil); !errors.Is(err, request.ErrTooLarge) {
			t.Errorf("error is %v", err)
		}
	})
}

// A request's trace goes on in the event that it causes.
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		control(t, s, "one")
		c := client.New(s.Connect("client"), fleet, nil)
		const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
		ctx := otel.Extract(within(t, time.Minute), "00-"+trace+"-00f067aa0ba902b7-01", "")
		if _, err := c.Declare(ctx, "s", &events.Definition{Command: "x"}, nil); err != nil {
			t.Fatal(err)
		}
		r := eventstest.Expect(t, open(t, s.Connect("test"), "test"), 0, eventstest.Kinds(events.KindDeclared)...)[0]
		if got := strings.Split(r.Trace.Parent, "-"); len(got) != 4 || got[1] != trace {
			t.Errorf("trace is %+v", r.Trace)
		}
	})
}

// What is asked wrongly is refused without a controller.
func TestRequestsAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := client.New(eventstest.NewServer(t, nil).Connect("client"), fleet, nil)
		_, err := c.Stop(t.Context(), "s", &client.RequestOptions{ID: events.RequestID(strings.Repeat("x", 200))})
		if !errors.Is(err, request.ErrInvalidRequest) {
			t.Errorf("error is %v", err)
		}
		if _, err := c.Do(t.Context(), &request.Request{Verb: request.Declare, Server: "s", ID: "r"}); !errors.Is(err, request.ErrInvalidRequest) {
			t.Errorf("error is %v", err)
		}
	})
}

func TestClosedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		nc := s.Connect("client")
		nc.Close()
		if _, err := client.New(nc, fleet, nil).Stop(t.Context(), "s", nil); !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("error is %v", err)
		}
		err := controller.NATS(nc, fleet)(t.Context(), nil)
		if !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("error of the API is %v", err)
		}
	})
}

// The definition that was given is not changed, and what is sent is what it says.
func TestDefinitionIsSentAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		control(t, s, "one")
		n := int64(0)
		d := events.Definition{
			Command: "x", Args: []string{"a", "${B}"}, Env: map[string]string{"LOG_LEVEL": "debug"}, Labels: map[string]string{"name": "X Y"},
			ConnectTimeoutMs: &n, Placement: &events.Placement{Replicas: events.EachWorker}, Unknown: []byte(`{"icon":{"b":1.50,"a":null}}`),
			Source: &events.Source{Provider: "file", Path: "/p/mcp.json", Line: 7},
		}
		if _, err := client.New(s.Connect("client"), fleet, nil).Declare(within(t, time.Minute), "s", &d, nil); err != nil {
			t.Fatal(err)
		}
		r := eventstest.Expect(t, open(t, s.Connect("test"), "test"), 0, eventstest.Kinds(events.KindDeclared)...)[0]
		if diff := cmp.Diff(d, r.Body.(events.Declared).Definition); diff != "" {
			t.Errorf("definition (-want +got):\n%s", diff)
		}
	})
}
