package outcome_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/outcome"
)

// M6: one line a server, none waits for another, and one failure is a failure.
func TestEach(t *testing.T) {
	notFound := exit.With(exit.NotFound, errors.WithHint(errors.New("no such\x1b server"), "list them"))
	for _, tt := range []struct {
		name string
		fail map[string]error
		want exit.Status
		errs string
	}{
		{"all well", nil, exit.Done, ""},
		{"one fails", map[string]error{"b": notFound}, exit.Failed, "b     failed: no such� server\n        list them\n"},
		{"all fail alike", map[string]error{"a": notFound, "b": notFound, "long": notFound}, exit.NotFound, ""},
		{"all fail", map[string]error{"a": notFound, "b": errors.New("x"), "long": notFound}, exit.Failed, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out, errs strings.Builder
				begun := time.Now()
				err := outcome.Each(t.Context(), &out, &errs, []string{"a", "b", "long"}, func(_ context.Context, id string) (string, error) {
					time.Sleep(time.Minute) // side by side
					return "ready", tt.fail[id]
				})
				if exit.Of(err) != tt.want {
					t.Errorf("status %d, want %d", exit.Of(err), tt.want)
				}
				if d := time.Since(begun); d != time.Minute {
					t.Errorf("took %v", d)
				}
				lines := slices.Sorted(strings.Lines(out.String()))
				if tt.name == "all well" && !slices.Equal(lines, []string{"a     ready\n", "b     ready\n", "long  ready\n"}) {
					t.Errorf("got %q", lines)
				}
				if tt.errs != "" && errs.String() != tt.errs {
					t.Errorf("got %q, want %q", errs.String(), tt.errs)
				}
				if strings.Count(out.String()+errs.String(), "ready\n")+strings.Count(errs.String(), "failed: ") != 3 {
					t.Errorf("not one outcome each: %q and %q", out.String(), errs.String())
				}
			})
		})
	}
}

// In turn they are told of in the order of the ids, and one failure is one all the
// same.
func TestInTurn(t *testing.T) {
	var out strings.Builder
	err := outcome.InTurn(t.Context(), &out, &out, []string{"b", "c", "a"}, func(_ context.Context, id string) (string, error) {
		if id == "c" {
			return "", errors.New("no")
		}
		return "ready", nil
	})
	if want := "b  ready\nc  failed: no\na  ready\n"; out.String() != want || exit.Of(err) != exit.Failed {
		t.Errorf("got %q, %v; want %q", out.String(), err, want)
	}
}
