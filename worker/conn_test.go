package worker

import (
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events/callwire"
)

// A log message belongs to the one call that waits; with several it could be told
// to a stranger.
func TestNoticesOfCalls(t *testing.T) {
	n := newNotices()
	logged := 0
	n.logged = func(jsontext.Value) { logged++ }
	log := func() { n.take("notifications/message", jsontext.Value(`{"level":"info","data":"x"}`)) }
	progress := func(token string) {
		n.take("notifications/progress", jsontext.Value(`{"progressToken":"`+token+`","progress":1}`))
	}
	var heard []string
	follow := func(token string) (stop func()) {
		return n.follow(token, func(k callwire.FrameKind, _ []byte) { heard = append(heard, token+" "+string(k)) })
	}
	log()
	forgetA := follow("a")
	log()
	progress("a")
	progress("b")
	forgetA()
	forgetA, forgetB := follow("a"), follow("b")
	log()
	forgetA()
	progress("b")
	log()
	forgetB()
	progress("b")
	if want := []string{"a log", "a progress", "b progress", "b log"}; !slices.Equal(heard, want) || logged != 4 {
		t.Errorf("the calls heard %q, want %q; %d messages were logged", heard, want, logged)
	}
}

// What the bus does not take is bounded, and none is sent after the end.
func TestNoticesThatAreNotTaken(t *testing.T) {
	n := newNotices()
	taken, take := 0, make(chan struct{})
	forget := n.follow("a", func(callwire.FrameKind, []byte) { <-take; taken++ })
	for range 10 * noticeQueue {
		n.take("notifications/progress", jsontext.Value(`{"progressToken":"a","progress":1}`))
	}
	close(take)
	forget()
	if taken < noticeQueue || taken > noticeQueue+1 {
		t.Errorf("%d notices were taken, want %d or one more", taken, noticeQueue)
	}
}
