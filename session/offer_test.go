package session

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// M14, case M1: names change with what other servers list, all at once, and the
// change is told; each name goes to its own server.
func TestNamesThatDependOnOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, o := newScene(t), &owners{}
		for _, id := range []events.ServerID{"a", "b"} {
			f.declare(id)
			o.set("tf.call.default."+string(id)+".0.1", says(fmt.Sprintf(`{"by":%q}`, id)))
		}
		s := attendWith(t, f, o, &Options{Scheme: projections.OnCollision})
		called := func(name, want string) {
			t.Helper()
			r, err := s.Call(t.Context(), name, nil, nil)
			if err != nil || string(r.JSON) != want {
				t.Errorf("%s: got %v, %v", name, r, err)
			}
		}
		listed := func(what string, want ...string) {
			t.Helper()
			now, _ := s.load()
			check(t, what, now.catalogue, want...)
		}
		f.ready("a", "0", "w", "search", "fetch")
		listed("one server", "fetch live", "search live")
		drainSignal(s)

		f.ready("b", "0", "w", "search")
		listed("two servers", "a__search live", "b__search live", "fetch live")
		if !drainSignal(s) {
			t.Error("other names were not told of")
		}
		called("a__search", `{"by":"a"}`)
		called("b__search", `{"by":"b"}`)
		called("fetch", `{"by":"a"}`)
		called("a__fetch", `{"by":"a"}`) // its name before or after another list
		if _, err := s.Call(t.Context(), "search", nil, nil); !errors.Is(err, ErrUnknownTool) {
			t.Errorf("a name of two tools: %v", err)
		}

		f.tell(events.ServerChain("b"), events.Disabled{})
		f.tell(events.InstanceChain("b", "0"), events.HasStopped{})
		listed("one again", "fetch live", "search live")
		if !drainSignal(s) {
			t.Error("other names were not told of")
		}
		called("a__search", `{"by":"a"}`)
		if _, err := s.Call(t.Context(), "b__search", nil, nil); !errors.Is(err, ErrNotExecuted) {
			t.Errorf("a tool of a server that is disabled: %v", err)
		}
	})
}

// drainSignal takes the signal of changes, if there is one.
func drainSignal(s *Session) bool {
	select {
	case <-s.Changes():
		return true
	default:
		return false
	}
}

// case M5: a tool does not get a name of the host's, and the status says so.
func TestReservedNames(t *testing.T) {
	f := newScene(t)
	f.declare("kanban")
	s := attendWith(t, f, &owners{}, &Options{Scheme: projections.OnCollision, Reserved: []string{"browser"}})
	f.ready("kanban", "0", "w", "browser", "move")
	n := s.Status()
	if len(n.Renamed) != 1 || n.Renamed[0].Name != "kanban__browser" || n.Renamed[0].Reserved != "browser" || n.Renamed[0].Tool != "browser" {
		t.Errorf("renamed: %+v", n.Renamed)
	}
	if _, err := s.Call(t.Context(), "browser", nil, nil); !errors.Is(err, ErrUnknownTool) {
		t.Errorf("a call by the reserved name: %v", err)
	}
	s = attendWith(t, f, &owners{}, &Options{Reserved: []string{"kanban__move"}})
	if now := s.Status(); len(now.Renamed) != 1 || now.Renamed[0].Tool != "move" {
		t.Errorf("renamed: %+v", now.Renamed)
	}
	if _, err := s.Call(t.Context(), "kanban__move", nil, nil); !errors.Is(err, ErrUnknownTool) {
		t.Errorf("a call by the reserved name: %v", err)
	}
	if len(n.Tools) != 2 || n.Tools[0].Name != "kanban__browser" || n.Tools[1].Name != "move" || n.Tools[1].Reserved != "" {
		t.Errorf("tools: %+v", n.Tools)
	}
}

// case G9: no more tools are shown than the session wants, the first in the order
// of their names, and what is left out is told.
func TestALimitOfTools(t *testing.T) {
	f, o := newScene(t), &owners{}
	s := attendWith(t, f, o, &Options{MaxTools: 128})
	const servers, each = 14, 40
	for n := range servers {
		id := events.ServerID(fmt.Sprintf("s%02d", n))
		f.declare(id)
		var tools []string
		for i := range each {
			tools = append(tools, fmt.Sprintf("t%02d", i))
		}
		f.ready(id, "0", "w", tools...)
	}
	n := s.Status()
	if len(n.Tools) != 128 || n.Total != 560 {
		t.Fatalf("%d of %d tools", len(n.Tools), n.Total)
	}
	if first, last := n.Tools[0].Name, n.Tools[127].Name; first != "s00__t00" || last != "s03__t07" {
		t.Errorf("from %s to %s", first, last)
	}
	want := map[events.ServerID]int{"s03": 32}
	for i := 4; i < servers; i++ {
		want[events.ServerID(fmt.Sprintf("s%02d", i))] = each
	}
	if diff := cmp.Diff(want, n.Omitted); diff != "" {
		t.Errorf("omitted (-want +got):\n%s", diff)
	}
	drainSignal(s)
	f.tell(events.WorkerChain("w"), events.Joined{})
	if again := s.Status(); &again.Tools[0] != &n.Tools[0] || drainSignal(s) {
		t.Error("another list, though nothing changed")
	}
	f.ready("s13", "0", "w", "t00") // fewer are left out
	if again := s.Status(); again.Omitted["s13"] != 1 || again.Total != 521 || !drainSignal(s) {
		t.Errorf("%d are omitted of s13, of %d in all", again.Omitted["s13"], again.Total)
	}
	r := &registry{}
	if err := s.Sync(t.Context(), r); err != nil || r.count != 128 {
		t.Errorf("a registry got %d tools, %v", r.count, err)
	}
	o.set("tf.call.default.s13.0.2", says(fine))
	if _, err := s.Call(t.Context(), "s13__t00", nil, nil); err != nil {
		t.Errorf("a tool that is left out: %v", err)
	}
}

// registry counts what it is given.
type registry struct{ count int }

func (r *registry) Replace(_ events.ServerID, tools []Tool) error {
	r.count += len(tools)
	return nil
}

// case G4: schemas without a type or properties get them, and keep the rest.
func TestParameters(t *testing.T) {
	for _, tt := range []struct{ schema, want string }{
		{``, `{"type":"object","properties":{}}`},
		{`null`, `{"type":"object","properties":{}}`},
		{`{}`, `{"type":"object","properties":{}}`},
		{` { } `, `{"type":"object","properties":{}}`},
		{`{"$schema":"x"}`, `{"type":"object","properties":{},"$schema":"x"}`},
		{`{"type":"object"}`, `{"properties":{},"type":"object"}`},
		{`{"properties":{"n":{"minimum":1.0}}}`, `{"type":"object","properties":{"n":{"minimum":1.0}}}`},
		{`{"type":"object", "properties":{},"x":12345678901234567890}`, `{"type":"object", "properties":{},"x":12345678901234567890}`},
	} {
		tool := Tool{InputSchema: jsontext.Value(tt.schema)}
		if got := tool.Parameters(); string(got) != tt.want || !got.IsValid() {
			t.Errorf("%s: got %s, want %s", tt.schema, got, tt.want)
		}
	}
}
