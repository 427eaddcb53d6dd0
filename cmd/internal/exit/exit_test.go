package exit_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
)

func TestOf(t *testing.T) {
	plain := errors.New("no")
	for _, tt := range []struct {
		name string
		err  error
		want exit.Status
	}{
		{"none", nil, exit.Done},
		{"plain", plain, exit.Failed},
		{"usage", exit.Usagef("what is %q", "x"), exit.Usage},
		{"wrapped", errors.Wrap(exit.With(exit.NotFound, plain), "look"), exit.NotFound},
		{"time limit", errors.Wrap(context.DeadlineExceeded, "call"), exit.TimedOut},
		{"own status before time limit", exit.With(exit.ToolError, context.DeadlineExceeded), exit.ToolError},
		{"interrupted", context.Canceled, exit.Failed},
		{"told", exit.Told(exit.NotFound), exit.NotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := exit.Of(tt.err); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
	if exit.With(exit.Usage, nil) != nil {
		t.Error("no error was given a status")
	}
	if !errors.Is(exit.With(exit.NotFound, plain), plain) {
		t.Error("the status hides its error")
	}
}

func TestPrint(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{
			errors.WithHint(errors.New("nothing is running"), "start it: toolfleet up"),
			"toolfleet: nothing is running\n  start it: toolfleet up\n",
		},
		{exit.With(exit.ToolError, errors.New("the tool said no")), ""},
		{exit.Told(exit.NotFound), ""},
		{nil, ""},
	} {
		var b strings.Builder
		exit.Print(&b, "toolfleet", tt.err)
		if b.String() != tt.want {
			t.Errorf("got %q, want %q", b.String(), tt.want)
		}
	}
}
