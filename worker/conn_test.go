package worker

import (
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
	log()
	a, forgetA := n.follow("a")
	log()
	progress("a")
	progress("b")
	if got := []notice{<-a, <-a}; got[0].kind != callwire.Log || got[1].kind != callwire.Progress || len(a) > 0 {
		t.Errorf("the only call got %v and %d more", got, len(a))
	}
	b, forgetB := n.follow("b")
	log()
	progress("b")
	if got := <-b; got.kind != callwire.Progress || len(a)+len(b) > 0 {
		t.Errorf("one of two calls got %v, and there are %d and %d more", got, len(a), len(b))
	}
	forgetA()
	log()
	if got := <-b; got.kind != callwire.Log {
		t.Errorf("the one that is left got %v", got)
	}
	forgetB()
	for range 2 * noticeQueue {
		progress("b")
	}
	if len(b) > 0 || logged != 4 {
		t.Errorf("a call that is over got %d notices; %d messages were logged", len(b), logged)
	}
}
