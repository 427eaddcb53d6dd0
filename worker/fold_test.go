package worker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
)

// said is an event of a chain, in a test's words.
type said struct {
	epoch events.Epoch
	body  events.Body
}

func fold(all ...said) history {
	var h history
	for i, s := range all {
		r := events.Record{Event: events.Event{
			Chain: events.InstanceChain("s", "0"), Body: s.body, Epoch: s.epoch, Time: time.Unix(int64(i+1), 0),
		}, Seq: events.Seq(i + 1), Link: "l"}
		h = h.evolve(&r)
	}
	return h
}

func assigned(e events.Epoch, w events.WorkerID, i events.Incarnation) said {
	return said{e, events.Assigned{Worker: w, Incarnation: i, Epoch: e}}
}

func TestFoldOwner(t *testing.T) {
	for name, tc := range map[string]struct {
		chain []said
		want  bool // owned by w, i, in epoch 2
	}{
		"empty":             {nil, false},
		"ours":              {[]said{assigned(2, "w", "i")}, true},
		"another worker":    {[]said{assigned(2, "x", "i")}, false},
		"another life":      {[]said{assigned(2, "w", "j")}, false},
		"another epoch":     {[]said{assigned(3, "w", "i")}, false},
		"released":          {[]said{assigned(2, "w", "i"), {2, events.Released{}}}, false},
		"lost":              {[]said{assigned(2, "w", "i"), {2, events.Lost{Worker: "w"}}}, false},
		"lost, unnamed":     {[]said{assigned(2, "w", "i"), {0, events.Lost{Worker: "w"}}}, false},
		"lost before":       {[]said{assigned(1, "w", "h"), assigned(2, "w", "i"), {1, events.Lost{Worker: "w"}}}, true},
		"assigned before":   {[]said{assigned(2, "w", "i"), assigned(1, "x", "h")}, true},
		"reassigned":        {[]said{assigned(2, "w", "i"), {2, events.Released{}}, assigned(3, "x", "h")}, false},
		"speaks for itself": {[]said{assigned(2, "w", "i"), {2, events.HasStopped{How: "idle"}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := fold(tc.chain...)
			if got := h.ownedBy("w", "i", 2); got != tc.want {
				t.Errorf("ownedBy = %v, want %v", got, tc.want)
			}
			if want := events.Seq(len(tc.chain)); h.tip.Seq != want {
				t.Errorf("the tip is at %d, want %d", h.tip.Seq, want)
			}
		})
	}
}

func TestFoldPast(t *testing.T) {
	list := events.ToolsListed{Listing: events.Listing{Digest: "d"}}
	for name, tc := range map[string]struct {
		chain []said
		want  Past
	}{
		"new": {[]said{assigned(1, "w", "i")}, Past{}},
		"in between": {
			[]said{assigned(1, "w", "i"), {1, events.Connecting{Attempt: 4}}, {1, events.Failed{Attempt: 4}}},
			Past{Attempt: 4, Restarting: true},
		},
		"stopped": {
			[]said{assigned(1, "w", "i"), {1, events.Connecting{Attempt: 1}}, {1, list}, {1, events.Stopping{}}, {1, events.HasStopped{}}},
			Past{Attempt: 1, Answered: true, Worked: true, DownSince: time.Unix(4, 0)},
		},
		"another owner": {
			[]said{assigned(1, "w", "i"), {1, events.Connecting{Attempt: 7}}, {1, list}, {1, events.Lost{}}, assigned(2, "w", "j")},
			Past{Worked: true, Restarting: true, DownSince: time.Unix(4, 0)},
		},
		"back again": {
			[]said{assigned(1, "w", "i"), {1, list}, {1, events.Failed{}}, {1, list}},
			Past{Worked: true},
		},
		"an old owner's words": {
			[]said{assigned(1, "w", "i"), assigned(2, "w", "j"), {1, events.Connecting{Attempt: 9}}, {1, events.HasStopped{}}, {1, list}},
			Past{Restarting: true},
		},
		"no credentials": {
			[]said{assigned(1, "w", "i"), {1, list}, {1, events.AuthRequired{}}},
			Past{Worked: true, Restarting: true, DownSince: time.Unix(3, 0)},
		},
		"kinds of the future": {
			[]said{assigned(1, "w", "i"), {1, events.Unknown{Type: "dev.toolfleet.x.v9"}}, {0, events.Undecodable{}}},
			Past{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := fold(tc.chain...)
			if d := cmp.Diff(tc.want, h.past()); d != "" {
				t.Errorf("past (-want +got):\n%s", d)
			}
		})
	}
}
