package controller

import (
	"strings"
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
)

// happened returns a world in which the server "s" has that history.
func happened(t fataler, bodies ...events.Body) *world {
	w := newWorld(t)
	for _, b := range bodies {
		w.must(events.Event{Chain: events.ServerChain("s"), Body: b})
	}
	return w
}

func declaredAs(d events.Definition) events.Body { return events.Declared{Definition: d} }

// M7, M9: what each request causes in each state.
func TestDecide(t *testing.T) {
	x, y := command("x"), command("y")
	moved := command("x")
	moved.Source = &events.Source{Provider: "file", Path: "mcp.json", Line: 3}
	elsewhere := command("x")
	elsewhere.Source = &events.Source{Provider: "file", Path: "mcp.json", Line: 30}
	labelled := command("x")
	labelled.Labels = map[string]string{"team": "t"}
	v1, v2 := command("x"), command("x")
	v1.Env, v2.Env = map[string]string{"T": "${secret:s/env.T#1}"}, map[string]string{"T": "${secret:s/env.T#2}"}

	type state = []events.Body
	unknown := state{}
	running := state{declaredAs(x)}
	stopped := state{declaredAs(x), events.StopRequested{}}
	disabled := state{declaredAs(x), events.Disabled{}}
	both := state{declaredAs(x), events.StopRequested{}, events.Disabled{}}
	withdrawn := state{declaredAs(x), events.Withdrawn{}}

	for name, test := range map[string]struct {
		state      state
		verb       request.Verb
		definition *events.Definition
		want       events.Body // nil: nothing
		unchanged  events.Seq
		err        error
	}{
		"declare a new server":                {unknown, request.Declare, &x, declaredAs(x), 0, nil},
		"declare a stopped one":               {unknown, request.Declare, &events.Definition{Command: "x", Want: events.Stopped}, declaredAs(events.Definition{Command: "x", Want: events.Stopped}), 0, nil},
		"declare it again":                    {running, request.Declare, &x, nil, 1, nil},
		"declare it again while disabled":     {disabled, request.Declare, &x, nil, 2, nil}, // M9
		"declare another definition":          {running, request.Declare, &y, events.Updated{From: x, To: y}, 0, nil},
		"declare other labels":                {running, request.Declare, &labelled, events.Updated{From: x, To: labelled}, 0, nil},
		"declare another version of a secret": {state{declaredAs(v1)}, request.Declare, &v2, events.Updated{From: v1, To: v2}, 0, nil},
		"declare from another line":           {state{declaredAs(moved)}, request.Declare, &elsewhere, nil, 1, nil},
		"declare a withdrawn server":          {withdrawn, request.Declare, &x, declaredAs(x), 0, nil},
		"declare nonsense":                    {running, request.Declare, &events.Definition{}, events.Rejected{}, 0, request.ErrInvalidDefinition},
		"declare a new server as nonsense":    {unknown, request.Declare, &events.Definition{}, events.Rejected{}, 0, request.ErrInvalidDefinition},
		"declare too many": {
			unknown, request.Declare, &events.Definition{Command: "x", Placement: &events.Placement{Replicas: events.MaxReplicas + 1}},
			events.Rejected{},
			0, request.ErrInvalidDefinition,
		},

		"withdraw":                    {running, request.Withdraw, nil, events.Withdrawn{}, 0, nil},
		"withdraw an unknown server":  {unknown, request.Withdraw, nil, nil, 0, request.ErrUnknownServer},
		"withdraw a withdrawn server": {withdrawn, request.Withdraw, nil, nil, 0, request.ErrUnknownServer},

		"enable":                        {disabled, request.Enable, nil, events.Enabled{}, 0, nil},
		"enable an enabled server":      {running, request.Enable, nil, nil, 1, nil},
		"enable an unknown server":      {unknown, request.Enable, nil, nil, 0, request.ErrUnknownServer},
		"disable":                       {running, request.Disable, nil, events.Disabled{}, 0, nil},
		"disable a stopped server":      {stopped, request.Disable, nil, events.Disabled{}, 0, nil},
		"disable a disabled server":     {disabled, request.Disable, nil, nil, 2, nil},
		"disable an unknown server":     {unknown, request.Disable, nil, nil, 0, request.ErrUnknownServer},
		"start":                         {stopped, request.Start, nil, events.StartRequested{}, 0, nil},
		"start a running server":        {running, request.Start, nil, nil, 1, nil},
		"start a disabled server":       {disabled, request.Start, nil, nil, 0, request.ErrServerDisabled},
		"start a stopped, disabled one": {both, request.Start, nil, nil, 0, request.ErrServerDisabled},
		"start an unknown server":       {unknown, request.Start, nil, nil, 0, request.ErrUnknownServer},
		"stop":                          {running, request.Stop, nil, events.StopRequested{}, 0, nil},
		"stop a stopped server":         {stopped, request.Stop, nil, nil, 2, nil},
		"stop a disabled server":        {disabled, request.Stop, nil, events.StopRequested{}, 0, nil}, // M9: it stays stopped when enabled
		"stop an unknown server":        {unknown, request.Stop, nil, nil, 0, request.ErrUnknownServer},
		"restart":                       {running, request.Restart, nil, events.RestartRequested{}, 0, nil},
		"restart a stopped server":      {stopped, request.Restart, nil, nil, 0, request.ErrServerStopped},
		"restart a disabled server":     {both, request.Restart, nil, nil, 0, request.ErrServerDisabled},
		"restart an unknown server":     {unknown, request.Restart, nil, nil, 0, request.ErrUnknownServer},
		"restart a withdrawn server":    {withdrawn, request.Restart, nil, nil, 0, request.ErrUnknownServer},
		"start a server that was never accepted": {
			state{events.Rejected{ID: "s"}}, request.Start, nil, nil, 0, request.ErrUnknownServer,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := happened(t, test.state...)
			q := request.Request{Verb: test.verb, Server: "s", Definition: test.definition, ID: "r", Actor: "ann@host", Reason: "why not"}
			if err := q.Check(); err != nil {
				t.Fatal(err)
			}
			es, answer, err := decide(&w.history, &q)
			if !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
				t.Fatalf("error is %v, want %v", err, test.err)
			}
			if err != nil && !strings.Contains(err.Error(), `"s"`) {
				t.Errorf("the error does not name the server: %v", err)
			}
			if want := (request.Answer{Seq: test.unchanged, Unchanged: test.unchanged > 0}); answer != want {
				t.Errorf("answer is %+v, want %+v", answer, want)
			}
			if test.want == nil {
				if len(es) > 0 {
					t.Errorf("events are %+v, want none", es)
				}
				return
			}
			if len(es) != 1 {
				t.Fatalf("events are %+v, want one", es)
			}
			got := es[0]
			want := events.Event{Chain: events.ServerChain("s"), Body: test.want, Correlation: "r", Actor: "ann@host", Reason: "why not"}
			if _, ok := want.Body.(events.Rejected); ok {
				if r, ok := got.Body.(events.Rejected); !ok || r.ID != "s" || len(r.Reasons) == 0 {
					t.Errorf("event is %+v", got.Body)
				}
				want.Body = got.Body
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(events.Chain{})); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
		})
	}
}

// M7
func TestStartingADisabledServerSaysWhatToDo(t *testing.T) {
	w := happened(t, declaredAs(command("x")), events.Disabled{})
	_, err := w.ask(request.Request{Verb: request.Start, Server: "s"})
	if err == nil || !strings.Contains(err.Error(), "enable it first") {
		t.Errorf("error is %v", err)
	}
}

// M2, M7
func TestIDsThatAreNone(t *testing.T) {
	w := newWorld(t)
	d := command("x")
	d.Source = &events.Source{Provider: "file", Path: "mcp.json"}
	_, err := w.ask(request.Request{Verb: request.Declare, Server: "my server", Definition: &d})
	var e *request.Error
	if !errors.As(err, &e) || e.Code != request.InvalidDefinition || e.Problems[0].Code != events.InvalidID ||
		!strings.Contains(err.Error(), "only ASCII letters, digits, '-' and '_'") {
		t.Fatalf("error is %v", err)
	}
	rejections := w.history.Fleet().Rejections
	if len(rejections) != 1 || rejections[0].ID != "my server" || rejections[0].Source == nil {
		t.Errorf("rejections are %+v", rejections)
	}
	before := w.end()
	for _, v := range request.Verbs()[1:] {
		if v.Object() != request.Server {
			continue
		}
		_, err := w.ask(request.Request{Verb: v, Server: "my server"})
		if !errors.Is(err, request.ErrUnknownServer) || !strings.Contains(err.Error(), `"my server"`) {
			t.Errorf("%s: error is %v", v, err)
		}
	}
	// The same again is known already, from whatever request.
	_, err = w.ask(request.Request{Verb: request.Declare, Server: "my server", Definition: &d})
	if !errors.As(err, &e) || e.Seq != 1 || w.end() != before {
		t.Errorf("error is %+v after %d events, want event 1", e, w.end())
	}
	long := strings.Repeat("ü", 2000)
	if _, err := w.ask(request.Request{Verb: request.Declare, Server: long, Definition: &d}); err == nil {
		t.Error("a very long name was accepted")
	}
	if got := w.history.Fleet().Rejections[1].ID; len(got) > maxRejectedID || !strings.HasPrefix(long, got) {
		t.Errorf("the rejection holds %d bytes of the name", len(got))
	}
}

// A rejection is written down once, until something else happens to the server.
func TestRejectionsAreNotRepeated(t *testing.T) {
	w := happened(t, declaredAs(command("x")))
	bad := events.Definition{Command: "x", URL: "https://x.test"}
	reject := func() *request.Error {
		var e *request.Error
		if _, err := w.ask(request.Request{Verb: request.Declare, Server: "s", Definition: &bad}); !errors.As(err, &e) {
			t.Fatalf("error is %v", err)
		}
		return e
	}
	reject()
	if w.end() != 2 {
		t.Fatalf("%d events, want 2", w.end())
	}
	if e := reject(); w.end() != 2 || e.Seq != 2 {
		t.Errorf("error is %+v after %d events", e, w.end())
	}
	if s := w.history.Server("s"); s.Definition.Command != "x" || s.Wanted() != events.Running {
		t.Errorf("the server is %+v", s)
	}
	w.declare("s", command("y"))
	reject()
	if w.end() != 4 {
		t.Errorf("%d events, want 4", w.end())
	}
}

func TestRepeatedRequests(t *testing.T) {
	for _, verb := range request.Verbs() {
		if verb.Object() != request.Server {
			continue
		}
		w := happened(t, declaredAs(command("x")), events.StopRequested{}, events.Disabled{}, events.Enabled{})
		switch verb {
		case request.Stop, request.Restart, request.Move:
			w.must(events.Event{Chain: events.ServerChain("s"), Body: events.StartRequested{}})
		case request.Enable:
			w.must(events.Event{Chain: events.ServerChain("s"), Body: events.Disabled{}})
		default:
		}
		q := request.Request{Verb: verb, Server: "s", ID: "r"}
		switch verb {
		case request.Declare:
			d := command("y")
			q.Definition = &d
		case request.Move:
			w.join("a", events.Joined{})
			q.Worker = "a"
		default:
		}
		first, err := w.ask(q)
		if err != nil {
			t.Fatalf("%s: %v", verb, err)
		}
		end := w.end()
		// Whatever happened since, the answer is the same.
		w.must(events.Event{Chain: events.ServerChain("s"), Body: events.Withdrawn{}})
		again, err := w.ask(q)
		if want := (request.Answer{Seq: first.Seq, Repeated: true}); err != nil || again != want || first.Seq != end {
			t.Errorf("%s: answers are %+v and %+v, %v", verb, first, again, err)
		}
		other := request.Request{Verb: request.Declare, Server: "s", ID: "r"}
		d := command("z")
		other.Definition = &d
		if _, err := w.ask(other); !errors.Is(err, request.ErrRequestReused) || !strings.Contains(err.Error(), `"r"`) {
			t.Errorf("%s: error of another body is %v", verb, err)
		}
		if w.end() != end+1 {
			t.Errorf("%s: repeats were written down", verb)
		}
	}
}

// A repeat of what was rejected is rejected again, and its id is good for
// nothing else.
func TestRepeatedRejection(t *testing.T) {
	for _, server := range []string{"s", "no id"} {
		w := newWorld(t)
		bad := events.Definition{URL: "nowhere"}
		q := request.Request{Verb: request.Declare, Server: server, ID: "r", Definition: &bad}
		if _, err := w.ask(q); !errors.Is(err, request.ErrInvalidDefinition) {
			t.Fatalf("error is %v", err)
		}
		var e *request.Error
		if _, err := w.ask(q); !errors.As(err, &e) || e.Code != request.InvalidDefinition || e.Seq != 1 || w.end() != 1 {
			t.Errorf("error is %+v after %d events", e, w.end())
		}
		if server == "no id" {
			continue
		}
		good := command("x")
		q.Definition = &good
		if _, err := w.ask(q); !errors.Is(err, request.ErrRequestReused) {
			t.Errorf("error is %v", err)
		}
	}
}

// One with more reasons than the fold keeps is no exception.
func TestLongRejectionsAreNotRepeated(t *testing.T) {
	w := newWorld(t)
	bad := events.Definition{URL: "nowhere", Headers: map[string]string{}}
	for i := range 40 {
		bad.Headers[strings.Repeat("(", i+1)] = "x"
	}
	for range 2 {
		if _, err := w.ask(request.Request{Verb: request.Declare, Server: "s", Definition: &bad}); !errors.Is(err, request.ErrInvalidDefinition) {
			t.Fatalf("error is %v", err)
		}
	}
	if w.end() != 1 || len(w.records[0].Body.(events.Rejected).Reasons) != 41 {
		t.Errorf("%d events, the first %+v", w.end(), w.records[0].Body)
	}
}

// The reasons of a rejection hold no value.
func TestRejectionsHoldNoValue(t *testing.T) {
	const canary = "sk-canary-4242"
	w := newWorld(t)
	bad := events.Definition{
		URL: "ftp://u:" + canary + "@x.test/" + canary, Env: map[string]string{"A=B": canary, "N": canary + "\x00"},
		Args: []string{canary + "\x00"},
	}
	_, err := w.ask(request.Request{Verb: request.Declare, Server: "s", Definition: &bad})
	if err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("error is %v", err)
	}
	for _, r := range w.history.Server("s").Rejection.Reasons {
		if strings.Contains(r.Message, canary) {
			t.Errorf("reason is %s", r.Message)
		}
	}
}
