package invariants

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/session"
)

func TestCalls(t *testing.T) {
	failed := &session.CallError{Outcome: session.ErrUnknownOutcome}
	for _, tt := range []struct {
		name     string
		outcomes []error
		executed int
		want     string
	}{
		{"a result", []error{nil}, 1, ""},
		{"not executed", []error{session.ErrNotExecuted}, 0, ""},
		{"unknown", []error{failed}, 0, ""},
		{"unknown and executed", []error{failed}, 1, ""},
		{"silence", nil, 0, "has 0 outcomes"},
		{"two outcomes", []error{nil, nil}, 1, "has 2 outcomes"},
		{"a result of nothing", []error{nil}, 0, "was executed 0 times"},
		{"a result of two", []error{nil}, 2, "was executed 2 times"},
		{"not executed, and executed", []error{session.ErrNotExecuted}, 1, `"not executed", and was executed 1 times`},
		{"unknown, and executed twice", []error{failed}, 2, `"outcome unknown", and was executed 2 times`},
		{"an error that is no outcome", []error{errors.New("oops")}, 0, "has the outcomes []"},
		{"an error that is two", []error{errors.Mark(failed, session.ErrFailed)}, 0, `["outcome unknown" "call failed"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c Calls
			end := c.Begin("a")
			for _, err := range tt.outcomes {
				end(err)
			}
			wants(t, c.Check(slices.Repeat([]string{"a"}, tt.executed)), tt.want)
		})
	}
	var c Calls
	wants(t, c.Check([]string{"b"}), "call b was executed and never made")
	c.Begin("b")(nil)
	c.Begin("d")(failed)
	if ok, otherwise := c.Count(); ok != 1 || otherwise != 1 {
		t.Errorf("%d with a result, %d without", ok, otherwise)
	}
}

func TestNoted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	if ids, err := Noted(path); len(ids) > 0 || err != nil {
		t.Errorf("without a record: %v, %v", ids, err)
	}
	if err := os.WriteFile(path, []byte("start 7\ncall note\nnote a\ncall note\nnote b\nstop 7 TERM\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ids, err := Noted(path); !slices.Equal(ids, []string{"a", "b"}) || err != nil {
		t.Errorf("got %v, %v", ids, err)
	}
}
