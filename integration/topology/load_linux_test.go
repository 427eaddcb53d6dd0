//go:build topology

package topology

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/integration/invariants"
	"github.com/toolfleet/toolfleet/session"
)

const (
	// callers of each session call one tool after the other, with a pause.
	callers   = 2
	callPause = 50 * time.Millisecond
	// callWithin bounds a call: more than any change or fault takes.
	callWithin = 45 * time.Second
	// changePause lies between two changes.
	changePause = 400 * time.Millisecond
)

// load calls the tool of every server and changes some of them, until the
// function that it returns is called: then all calls and changes have ended.
func (r *rig) load(call, change []events.ServerID) (stop func()) {
	over := make(chan struct{})
	var all sync.WaitGroup
	for agent, s := range r.sessions {
		for i := range callers {
			all.Go(func() {
				for n := 0; pause(over, callPause); n++ {
					id := call[(n+i)%len(call)]
					_ = r.call(s, id, fmt.Sprintf("%s-%d-%d", agent, i, n)) // what became of it is noted
				}
			})
		}
	}
	for _, id := range change {
		all.Go(func() {
			for n := 0; pause(over, changePause); n++ {
				r.change(id, n)
			}
		})
	}
	return func() {
		close(over)
		all.Wait()
	}
}

// pause returns false when it is over first.
func pause(over <-chan struct{}, d time.Duration) bool {
	select {
	case <-over:
		return false
	case <-time.After(d):
		return true
	}
}

// call calls a server's tool, once, and notes what became of it. It does not end
// with the load, so that each call has the outcome that it would have had.
func (r *rig) call(s *session.Session, id events.ServerID, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), callWithin)
	defer cancel()
	end := r.calls.Begin(name)
	_, err := s.Call(ctx, string(id)+"__note", fmt.Appendf(nil, `{"text":%q}`, name), nil)
	end(err)
	return err
}

// calling makes a call, of at most 20 s, that the tool takes longer for; what
// becomes of it comes over the channel. It is under way when calling returns.
func (r *rig) calling(id events.ServerID, name string) (outcome <-chan error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), 20*time.Second)
	end, ended := r.calls.Begin(name), make(chan error, 1)
	go func() {
		defer cancel()
		_, err := r.sessions["agent-1"].Call(ctx, string(id)+"__note", fmt.Appendf(nil, `{"text":%q,"ms":3600000}`, name), nil)
		end(err)
		ended <- err
	}()
	r.eventually(name+" to be executed", func() error {
		if ids, err := invariants.Noted(r.noted(id)); err != nil || !slices.Contains(ids, name) {
			return errors.Newf("%v, %v", ids, err)
		}
		return nil
	})
	return ended
}

// changes are made of a server one after the other, again and again.
var changes = []request.Verb{
	request.Declare, request.Restart, request.Declare, request.Stop, request.Start,
	request.Disable, request.Enable, request.Withdraw,
}

// change makes the n-th change of a server.
func (r *rig) change(id events.ServerID, n int) {
	verb := changes[n%len(changes)]
	if verb != request.Declare {
		r.ask(verb, id, nil)
		return
	}
	r.ask(verb, id, r.definition(id, fmt.Sprintf("tool-%d", n)))
}

// works waits until a tool of each server was called, and answered, by each
// session.
func (r *rig) works(ids ...events.ServerID) {
	r.t.Helper()
	for agent, s := range r.sessions {
		for _, id := range ids {
			r.eventually(fmt.Sprintf("%s to answer to %s", id, agent), func() error {
				return r.call(s, id, r.name("probe"))
			})
		}
	}
}

// name returns a new name for a call of the test itself.
func (r *rig) name(what string) string {
	r.named++
	return fmt.Sprintf("%s-%d", what, r.named)
}
