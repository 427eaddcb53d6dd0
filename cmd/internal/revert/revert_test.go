package revert_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/revert"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

func command(name string) events.Definition { return events.Definition{Command: name} }

// history is the chain of a server, one event a sequence from 1 on.
func history(bodies ...events.Body) (records []events.Record) {
	for i, b := range bodies {
		records = append(records, events.Record{
			Event: events.Event{Chain: events.ServerChain("s"), Body: b}, Seq: events.Seq(i + 1),
		})
	}
	return records
}

func TestFind(t *testing.T) {
	life := history(
		events.Declared{Definition: command("a")},
		events.Disabled{},
		events.Updated{From: command("a"), To: command("b")},
		events.UpdateSettled{},
		events.Updated{From: command("b"), To: command("c")},
		events.UpdateRolledBack{}, // b again
		events.Withdrawn{},
		events.Declared{Definition: command("d")},
	)
	for _, tt := range []struct {
		name    string
		records []events.Record
		at      events.Seq
		want    string // the command, or the error
		seq     events.Seq
		same    bool
		status  exit.Status
	}{
		{"before an update", life[:3], 0, "a", 1, false, 0},
		{"before an update that failed", life[:6], 0, "a", 1, false, 0},
		{"what failed, by its position", life[:6], 5, "c", 5, false, 0},
		{"before a withdrawal", life[:7], 0, "b", 6, false, 0},
		{"before it was declared again", life, 0, "b", 6, false, 0},
		{"at a position", life, 4, "b", 3, false, 0},
		{"at one between", life, 2, "a", 1, false, 0},
		{"what it has", life, 8, "d", 8, true, 0},
		{"when it was withdrawn", life, 7, "had no server s at event 7", 0, false, exit.NotFound},
		{"never changed", life[:2], 0, "never had another definition", 0, false, exit.Failed},
		{"never there", nil, 0, "never had a server", 0, false, exit.NotFound},
		{"only refused", history(events.Rejected{ID: "s"}), 0, "never had a server", 0, false, exit.NotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := revert.Find("s", tt.records, tt.at)
			if err != nil {
				if tt.seq != 0 || !strings.Contains(err.Error(), tt.want) || exit.Of(err) != tt.status {
					t.Errorf("got %v, status %d", err, exit.Of(err))
				}
				return
			}
			if got.Definition.Command != tt.want || got.Seq != tt.seq || got.Same != tt.same {
				t.Errorf("got %q of %d, same %t", got.Definition.Command, got.Seq, got.Same)
			}
		})
	}
}

func TestSecrets(t *testing.T) {
	d := &events.Definition{
		Command: "x", Args: []string{"--token", "${secret:s/arg.2#1}", "${HOME}"},
		Env: map[string]string{"A": "${secret:s/env.A#2}", "B": "${secret:s/env.A#2}"},
	}
	refs, err := revert.Secrets(d)
	want := []jetlog.SecretRef{{Server: "s", Key: "arg.2", Version: 1}, {Server: "s", Key: "env.A", Version: 2}}
	if diff := cmp.Diff(want, refs); diff != "" || err != nil {
		t.Fatalf("%v, references (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff(want[1:], revert.Missing(refs, want[:1])); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	if _, err := revert.Secrets(&events.Definition{Command: "${secret:nonsense}"}); err == nil {
		t.Error("a reference that is none was taken")
	}
}
