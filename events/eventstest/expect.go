package eventstest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// Follower is what [Expect] waits on.
type Follower interface {
	Follow(ctx context.Context, after events.Seq, o *jetlog.FollowOptions) iter.Seq2[events.Record, error]
}

// Want is an event that is waited for. Each field that is set must fit.
type Want struct {
	Chain events.Chain
	Kind  events.Kind
	// That, if set, must hold, and Say is what it means.
	That func(r *events.Record) bool
	Say  string
}

// Kinds wants events of those kinds, in that order, on any chain.
func Kinds(kinds ...events.Kind) []Want { return On(events.Chain{}, kinds...) }

// On wants events of those kinds, in that order, on one chain.
func On(c events.Chain, kinds ...events.Kind) []Want {
	wants := make([]Want, len(kinds))
	for i, k := range kinds {
		wants[i] = Want{Chain: c, Kind: k}
	}
	return wants
}

func (w *Want) fits(r *events.Record) bool {
	return (w.Chain == events.Chain{} || w.Chain == r.Chain) &&
		(w.Kind == "" || w.Kind == r.Kind()) &&
		(w.That == nil || w.That(r))
}

func (w *Want) String() string {
	s := string(w.Kind)
	if s == "" {
		s = "an event"
	}
	if w.Chain != (events.Chain{}) {
		s += " on " + w.Chain.String()
	}
	if w.Say != "" {
		s += ", " + w.Say
	}
	return s
}

// Expect follows the history after a position until it has seen every wanted
// event, in that order but with any others between, and returns those. If that
// takes longer than [HangLimit] the test ends, with a list of what was seen.
func Expect(t testing.TB, l Follower, after events.Seq, wants ...Want) []events.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), HangLimit)
	defer cancel()
	var found, seen []events.Record
	for r, err := range l.Follow(ctx, after, nil) {
		if err != nil {
			t.Fatalf("wanted %s after %d: %v\n%s", &wants[len(found)], after, err, Lines(seen))
		}
		seen = append(seen, r)
		if wants[len(found)].fits(&r) {
			found = append(found, r)
		}
		if len(found) == len(wants) {
			return found
		}
	}
	t.Fatalf("wanted %s after %d: it did not come in %s; what came:\n%s", &wants[len(found)], after, HangLimit, Lines(seen))
	return nil
}

// Stored returns the events that are stored after a position now.
func Stored(t testing.TB, l Log, after events.Seq) []events.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), HangLimit)
	defer cancel()
	head, err := l.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if head.Seq <= after {
		return nil
	}
	return collect(t, l.Follow(ctx, after, &jetlog.FollowOptions{Until: head.Seq}))
}

// collect returns what a sequence yields; an error ends the test.
func collect[T any](t testing.TB, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for x, err := range seq {
		if err != nil {
			t.Fatalf("after %d of them: %v", len(all), err)
		}
		all = append(all, x)
	}
	return all
}

// Lines describes records for people, one a line.
func Lines(records []events.Record) string {
	if len(records) == 0 {
		return "  nothing"
	}
	var b strings.Builder
	for i := range records {
		r := &records[i]
		fmt.Fprintf(&b, "  %5d  %-30s %s", r.Seq, r.Chain, r.Kind())
		if r.Epoch != 0 {
			fmt.Fprintf(&b, "  epoch %d", r.Epoch)
		}
		if u, ok := r.Body.(events.Undecodable); ok {
			fmt.Fprintf(&b, "undecodable: %s", u.Reason)
		} else if len(r.Data) > 0 && string(r.Data) != "{}" {
			fmt.Fprintf(&b, "  %.200s", r.Data)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Diff compares records for people: it returns "" if they are the same, else the
// differences, in the form of [cmp.Diff].
func Diff(want, got []events.Record) string {
	return cmp.Diff(want, got, compare...)
}

var compare = cmp.Options{
	cmp.Comparer(func(a, b events.Chain) bool { return a == b }),
	cmp.Comparer(func(a, b jsontext.Value) bool { return bytes.Equal(a, b) }), // by parts, large ones take seconds
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() != reflect.TypeFor[jsontext.Value]() }, cmpopts.EquateEmpty()),
}
