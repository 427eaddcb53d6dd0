package controller

import (
	"strings"
	"testing"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
)

// What requests about workers and the fleet cause in each state, and what is
// refused, with a way out that names what was asked about.
func TestDecideAboutHosts(t *testing.T) {
	type asking = request.Request
	each := placed("x", events.Placement{Replicas: events.EachWorker})
	for name, test := range map[string]struct {
		before []any // events by chain, or a definition to declare as s
		ask    asking
		want   events.Body // nil: nothing
		err    error
		says   string
	}{
		"cordon":                      {nil, asking{Verb: request.Cordon, Worker: "a"}, events.Cordoned{}, nil, ""},
		"cordon a cordoned one":       {[]any{events.Cordoned{}}, asking{Verb: request.Cordon, Worker: "a"}, nil, nil, ""},
		"cordon one that drains":      {[]any{events.Draining{}}, asking{Verb: request.Cordon, Worker: "a"}, events.Cordoned{}, nil, ""},
		"cordon one that left":        {nil, asking{Verb: request.Cordon, Worker: "gone"}, events.Cordoned{}, nil, ""},
		"cordon one nobody knows":     {nil, asking{Verb: request.Cordon, Worker: "x"}, nil, request.ErrUnknownWorker, `the fleet has no worker "x"`},
		"cordon what is no id":        {nil, asking{Verb: request.Cordon, Worker: "x.>"}, nil, request.ErrUnknownWorker, `the fleet has no worker "x.>"`},
		"cordon nothing":              {nil, asking{Verb: request.Cordon}, nil, request.ErrUnknownWorker, ""},
		"drain":                       {nil, asking{Verb: request.Drain, Worker: "a"}, events.Draining{}, nil, ""},
		"drain a drained one":         {[]any{events.Draining{}}, asking{Verb: request.Drain, Worker: "a"}, nil, nil, ""},
		"drain one that goes itself":  {[]any{events.Draining{Incarnation: "a-1"}}, asking{Verb: request.Drain, Worker: "a"}, events.Draining{}, nil, ""},
		"drain while frozen":          {[]any{events.Frozen{}}, asking{Verb: request.Drain, Worker: "a"}, nil, request.ErrFrozen, `the fleet is frozen by ann@host ("no") since `},
		"cordon while frozen":         {[]any{events.Frozen{}}, asking{Verb: request.Cordon, Worker: "a"}, events.Cordoned{}, nil, ""},
		"uncordon":                    {[]any{events.Cordoned{}}, asking{Verb: request.Uncordon, Worker: "a"}, events.Uncordoned{}, nil, ""},
		"uncordon a drained one":      {[]any{events.Draining{}}, asking{Verb: request.Uncordon, Worker: "a"}, events.Uncordoned{}, nil, ""},
		"uncordon one that is not":    {nil, asking{Verb: request.Uncordon, Worker: "a"}, nil, nil, ""},
		"freeze":                      {nil, asking{Verb: request.Freeze}, events.Frozen{}, nil, ""},
		"freeze again":                {[]any{events.Frozen{}}, asking{Verb: request.Freeze}, nil, nil, ""},
		"unfreeze":                    {[]any{events.Frozen{}}, asking{Verb: request.Unfreeze}, events.Unfrozen{}, nil, ""},
		"unfreeze what is not frozen": {nil, asking{Verb: request.Unfreeze}, nil, nil, ""},

		"move":                        {[]any{command("x")}, asking{Verb: request.Move, Server: "s", Worker: "b"}, events.MoveRequested{Worker: "b"}, nil, ""},
		"move to where it is":         {[]any{placed("x", events.Placement{Worker: "a"})}, asking{Verb: request.Move, Server: "s", Worker: "a"}, nil, nil, ""},
		"move to a drained one":       {[]any{command("x"), events.Draining{}}, asking{Verb: request.Move, Server: "s", Worker: "a"}, nil, request.ErrDoesNotFit, `server "s" cannot run on worker "a": draining`},
		"move to a cordoned one":      {[]any{events.Cordoned{}, command("x")}, asking{Verb: request.Move, Server: "s", Worker: "a"}, nil, request.ErrDoesNotFit, `cordoned`},
		"move to one that left":       {[]any{command("x")}, asking{Verb: request.Move, Server: "s", Worker: "gone"}, nil, request.ErrDoesNotFit, `worker "gone": left`},
		"move to a full one":          {[]any{placed("x", events.Placement{Worker: "b"})}, asking{Verb: request.Move, Server: "t", Worker: "full"}, nil, request.ErrDoesNotFit, `worker "full": full`},
		"move against the placement":  {[]any{placed("x", events.Placement{Worker: "b"})}, asking{Verb: request.Move, Server: "s", Worker: "a"}, nil, request.ErrDoesNotFit, `worker "a": not b`},
		"move against the labels":     {[]any{placed("x", events.Placement{Labels: map[string]string{"zone": "1"}})}, asking{Verb: request.Move, Server: "s", Worker: "a"}, nil, request.ErrDoesNotFit, `without label zone=1`},
		"move to one nobody knows":    {[]any{command("x")}, asking{Verb: request.Move, Server: "s", Worker: "x"}, nil, request.ErrUnknownWorker, `no worker "x"`},
		"move what is on each":        {[]any{each}, asking{Verb: request.Move, Server: "s", Worker: "full"}, nil, request.ErrDoesNotFit, "nothing to move"},
		"move a stopped one":          {[]any{command("x"), events.StopRequested{}}, asking{Verb: request.Move, Server: "s", Worker: "a"}, nil, request.ErrServerStopped, "start it"},
		"move what is not there":      {nil, asking{Verb: request.Move, Server: "s", Worker: "a"}, nil, request.ErrUnknownServer, `"s"`},
		"move while frozen":           {[]any{command("x"), events.Frozen{}}, asking{Verb: request.Move, Server: "s", Worker: "b"}, nil, request.ErrFrozen, "unfreeze it first"},
		"restart while frozen":        {[]any{command("x"), events.Frozen{}}, asking{Verb: request.Restart, Server: "s"}, nil, request.ErrFrozen, ""},
		"start while frozen":          {[]any{command("x"), events.StopRequested{}, events.Frozen{}}, asking{Verb: request.Start, Server: "s"}, nil, request.ErrFrozen, ""},
		"start a started one, frozen": {[]any{command("x"), events.Frozen{}}, asking{Verb: request.Start, Server: "s"}, nil, nil, ""},
		"enable while frozen":         {[]any{command("x"), events.Disabled{}, events.Frozen{}}, asking{Verb: request.Enable, Server: "s"}, nil, request.ErrFrozen, ""},
		"withdraw while frozen":       {[]any{command("x"), events.Frozen{}}, asking{Verb: request.Withdraw, Server: "s"}, nil, request.ErrFrozen, ""},
		"declare while frozen":        {[]any{events.Frozen{}}, asking{Verb: request.Declare, Server: "s", Definition: new(command("x"))}, nil, request.ErrFrozen, ""},
		"change while frozen":         {[]any{command("x"), events.Frozen{}}, asking{Verb: request.Declare, Server: "s", Definition: new(command("y"))}, nil, request.ErrFrozen, ""},
		"declare the same, frozen":    {[]any{command("x"), events.Frozen{}}, asking{Verb: request.Declare, Server: "s", Definition: new(command("x"))}, nil, nil, ""},
		"stop while frozen":           {[]any{command("x"), events.Frozen{}}, asking{Verb: request.Stop, Server: "s"}, events.StopRequested{}, nil, ""},
		"disable while frozen":        {[]any{command("x"), events.Frozen{}}, asking{Verb: request.Disable, Server: "s"}, events.Disabled{}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := hosts(t, test.before)
			q := test.ask
			q.ID, q.Actor, q.Reason = "r", "ann@host", "why not"
			if err := q.Check(); err != nil {
				t.Fatal(err)
			}
			es, answer, err := decide(&w.history, &q)
			switch {
			case !errors.Is(err, test.err) || (err == nil) != (test.err == nil):
				t.Fatalf("error is %v, want %v", err, test.err)
			case err != nil && !strings.Contains(err.Error(), test.says):
				t.Errorf("error is %v, want it to say %s", err, test.says)
			case test.want == nil && (len(es) > 0 || answer.Unchanged != (err == nil)):
				t.Fatalf("events are %+v with %+v, want none", es, answer)
			}
			if test.want == nil {
				return
			}
			want := events.Event{Chain: chainOf(&q), Body: test.want, Correlation: "r", Actor: "ann@host", Reason: "why not"}
			if len(es) != 1 || es[0].Chain != want.Chain || es[0].Body != want.Body || es[0].Correlation != "r" || es[0].Actor != want.Actor || es[0].Reason != want.Reason {
				t.Fatalf("events are %+v, want %+v", es, want)
			}
			// Whatever happens since, the answer to a repeat is the same.
			first := w.must(es[0])
			if again, err := w.ask(q); err != nil || again != (request.Answer{Seq: first.Seq, Repeated: true}) {
				t.Errorf("the repeat is answered with %+v, %v", again, err)
			}
			for v, other := range map[request.Verb]request.Request{
				request.Cordon: {Verb: request.Uncordon, Worker: q.Worker}, request.Drain: {Verb: request.Cordon, Worker: q.Worker},
				request.Uncordon: {Verb: request.Cordon, Worker: q.Worker}, request.Freeze: {Verb: request.Unfreeze},
				request.Unfreeze: {Verb: request.Freeze}, request.Move: {Verb: request.Move, Server: q.Server, Worker: "a"},
			} {
				other.ID = "r"
				if _, err := w.ask(other); v == q.Verb && !errors.Is(err, request.ErrRequestReused) {
					t.Errorf("another request of that id: %v", err)
				}
			}
		})
	}
}

// hosts returns a world of four workers, of which one has left and one is full of
// the server t.
func hosts(t *testing.T, before []any) *world {
	w := newWorld(t)
	w.join("full", events.Joined{Capacity: 1})
	w.declare("full", placed("x", events.Placement{Worker: "full"}))
	w.declare("t", command("x"))
	for _, id := range []events.WorkerID{"a", "b", "gone"} {
		w.join(id, events.Joined{})
	}
	w.leave("gone")
	w.settle()
	for _, b := range before {
		switch b := b.(type) {
		case events.Definition:
			w.declare("s", b)
			w.settle()
			if i := w.history.Instance("s", "0"); i != nil && i.Worker == "b" && b.Placement == nil {
				// The tests move it to b.
				w.must(events.Event{Chain: events.ServerChain("s"), Body: events.MoveRequested{Worker: "a"}})
				w.settle()
			}
		case events.Frozen:
			w.must(events.Event{Chain: events.FleetChain(), Body: b, Actor: "ann@host", Reason: "no"})
		case events.Cordoned, events.Draining:
			w.say(events.WorkerChain("a"), b.(events.Body))
			w.settle()
		case events.Body:
			w.say(events.ServerChain("s"), b)
		}
	}
	return w
}

// Whom a request is about is part of what it says.
func TestRequestsNameWhatTheyAreAbout(t *testing.T) {
	for _, q := range []request.Request{
		{Verb: request.Cordon, Server: "s"},
		{Verb: request.Freeze, Server: "s"},
		{Verb: request.Freeze, Worker: "w"},
		{Verb: request.Stop, Server: "s", Worker: "w"},
	} {
		q.ID = "r"
		if err := q.Check(); !errors.Is(err, request.ErrInvalidRequest) {
			t.Errorf("%s: error is %v", q.About(), err)
		}
	}
}
