package session_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
	"github.com/toolfleet/toolfleet/session"
)

// What a session offered is what one offers that is opened on the past: the same
// tools, long lists too, and nothing of what came later.
func TestPast(t *testing.T) {
	onHost(t, func(t *testing.T, h *host) {
		h.serve("a", 1, `{"name":"one"}`, `{"name":"two"}`)
		h.serve("b", 1, `{"name":"three"}`)
		s := h.open(nil)
		then, seq := h.await(s, 3), h.last
		h.list("a", 1, `{"name":"two"}`, `{"name":"four"}`)
		h.serve("c", 1, `{"name":"five"}`)
		h.await(s, 4)
		s.Close()
		r, err := kvview.Past(t.Context(), h.log, seq, &kvview.PastOptions{Lists: true})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(then, session.Past(r, nil)); diff != "" {
			t.Errorf("tools (-then +past):\n%s", diff)
		}
		// The middle of a start has no list yet, and without lists there is none.
		for _, o := range []*kvview.PastOptions{nil, {Lists: true}} {
			if r, err = kvview.Past(t.Context(), h.log, 3, o); err != nil {
				t.Fatal(err)
			}
			if got := session.Past(r, &session.Options{Scheme: projections.Prefixed}); len(got) > 0 {
				t.Errorf("tools %v before one was listed", names(got))
			}
		}
		if r, err = kvview.Past(t.Context(), h.log, seq, nil); err != nil {
			t.Fatal(err)
		}
		if got := session.Past(r, nil); len(got) > 0 {
			t.Errorf("tools %v without their lists", names(got))
		}
	})
}
