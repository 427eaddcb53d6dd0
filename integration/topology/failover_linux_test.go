//go:build topology

package topology

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
)

// A worker dies, and comes back; then the other one is stopped in peace. Each
// time the other has all servers soon. A call that the dead one had begun ends, as
// one of which nobody knows what became, and so does one that comes right after.
func TestWorkerEnds(t *testing.T) {
	sideBySide(t)
	r := newRig(t)
	began := time.Now() // of the controllers' watch, or a little later
	r.declare(lasting...)
	stop := r.load(lasting, nil)
	<-time.After(time.Until(began.Add(jetlog.LeaseTTL)))

	dead, heir := r.parts["worker-1"], r.parts["worker-2"]
	after, moved := r.head(), r.ownedBy(dead)
	begun := r.calling(moved[0], r.name("begun"))
	killed := time.Now()
	dead.kill()
	r.ends(moved[0])
	r.works(lasting...)
	r.movedTo(heir, lasting)
	figure(t, "kill -9 of a worker, until its servers start elsewhere", r.started(moved, after).Sub(killed), jetlog.LeaseTTL+4*time.Second)
	dead.start()
	r.healthy(dead)

	_, before := r.calls.Count()
	before -= len(begun) // it ends in its own time
	after = r.head()
	stopped := time.Now()
	heir.stop()
	r.movedTo(dead, lasting)
	figure(t, "SIGTERM of a worker, until its servers start elsewhere", r.started(lasting, after).Sub(stopped), time.Second)
	r.works(lasting...)
	if _, failed := r.calls.Count(); failed > before+len(begun) {
		t.Errorf("%d calls failed while a worker stopped in peace", failed-before-len(begun))
	}
	if err := <-begun; !errors.Is(err, session.ErrUnknownOutcome) {
		t.Errorf("the call that was under way when its owner died: %v", err)
	}
	heir.start()
	r.healthy(heir)
	stop()
	r.settled()
	r.ended()
}

// The controller that leads dies, and later the node that leads the history, both
// under load.
func TestLeaderEnds(t *testing.T) {
	sideBySide(t)
	r := newRig(t)
	r.declare(lasting...)
	stop := r.load(append(lasting, changing[0]), changing[:1])
	r.leaderDies()
	r.historyDies()
	stop()
	r.settled()
	r.ended()
}

func (r *rig) leaderDies() {
	leader, other := r.leader()
	after := r.head()
	killed := time.Now()
	leader.kill()
	first := r.ask(request.Restart, lasting[0], nil)
	figure(r.t, "kill -9 of the leader, until a request is granted", time.Since(killed), time.Second)
	var stale time.Duration
	for seq := first.Seq; ; seq = r.ask(request.Restart, lasting[1], nil).Seq {
		asked := time.Now()
		r.seen(seq)
		stale = max(stale, time.Since(asked))
		if r.led(other, after) {
			break
		}
		time.Sleep(500 * time.Millisecond) // of many
	}
	figure(r.t, "kill -9 of the leader, how old the views are", stale, 2*time.Second)
	figure(r.t, "kill -9 of the leader, until another one plans",
		r.started(lasting[:1], first.Seq).Sub(killed), jetlog.LeaseTTL+2*time.Second)
	leader.start()
	r.healthy(leader)
	r.works(lasting...)
}

func (r *rig) historyDies() {
	history := jetlog.StreamName(r.fleet, "events")
	node, _ := r.node(history)
	led := r.ledBy(node)
	after := r.head()
	killed := time.Now()
	node.kill()
	bus := make(chan time.Duration, 1)
	go func() { bus <- r.elected(led, node, killed) }()
	r.seen(r.ask(request.Restart, lasting[0], nil).Seq)
	back := time.Since(killed)
	own := <-bus
	r.t.Logf("the bus took %v to elect other leaders of %d streams", own.Round(time.Millisecond), len(led))
	figure(r.t, "kill -9 of the history's leader, beyond the bus's own time", back-own, time.Second)
	r.works(lasting...)
	for _, x := range r.history() {
		if x.Seq > after && slices.Contains([]events.Kind{events.KindLost, events.KindLedBy, events.KindJoined}, x.Kind()) {
			r.t.Errorf("a false takeover: event %d is %s of %s", x.Seq, x.Kind(), x.Chain)
		}
	}
	node.start()
	r.healthy(node)
	r.replicated()
}

// ends calls a server whose owner just died, with little time: the call ends in
// time all the same, and says that it was not executed or that nobody knows.
func (r *rig) ends(id events.ServerID) {
	r.t.Helper()
	const limit = 2 * time.Second
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	name := r.name("late")
	end, began := r.calls.Begin(name), time.Now()
	_, err := r.sessions["agent-2"].Call(ctx, string(id)+"__note", fmt.Appendf(nil, `{"text":%q}`, name), nil)
	end(err)
	if waited := time.Since(began); waited > slack*limit || !errors.IsAny(err, session.ErrNotExecuted, session.ErrUnknownOutcome) {
		r.t.Errorf("a call of a server whose owner died ended after %v: %v", waited, err)
	}
}

// declare declares servers and waits until they are ready.
func (r *rig) declare(ids ...events.ServerID) {
	r.t.Helper()
	for _, id := range ids {
		r.ask(request.Declare, id, r.definition(id))
	}
	r.ready(ids...)
}

// head returns where the history ends.
func (r *rig) head() events.Seq {
	r.t.Helper()
	h, err := r.log.Head(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return h.Seq
}

// ownedBy returns the servers of a worker.
func (r *rig) ownedBy(w *part) (all []events.ServerID) {
	r.t.Helper()
	for id, owner := range r.owners() {
		if owner == w.service.Name {
			all = append(all, id)
		}
	}
	return all
}

// movedTo waits until a worker has all these servers, and they are ready.
func (r *rig) movedTo(w *part, ids []events.ServerID) {
	r.t.Helper()
	s := r.sessions["agent-1"]
	r.eventually("all servers to be with "+w.service.Name, func() error {
		for _, n := range s.Status().Servers {
			if slices.Contains(ids, n.ID) && (string(n.Worker) != w.service.Name || n.ToolsState != projections.ToolsLive) {
				return errors.Newf("%s is %s on %s", n.ID, n.State, n.Worker)
			}
		}
		return nil
	})
}

// started waits until all of these servers have begun to connect after a position,
// and returns when the last of them did for the first time.
func (r *rig) started(ids []events.ServerID, after events.Seq) (last time.Time) {
	r.t.Helper()
	r.eventually("servers to be started", func() error {
		first := make(map[events.ServerID]time.Time)
		for _, x := range r.history() {
			if id := x.Chain.Server(); x.Seq > after && x.Kind() == events.KindConnecting && first[id].IsZero() {
				first[id] = x.Time
			}
		}
		last = time.Time{}
		for _, id := range ids {
			if first[id].IsZero() {
				return errors.Newf("%s was not started after event %d", id, after)
			}
			if first[id].After(last) {
				last = first[id]
			}
		}
		return nil
	})
	return last
}

// seen waits until both sessions have seen the history up to there.
func (r *rig) seen(seq events.Seq) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	for name, s := range r.sessions {
		if err := s.Wait(ctx, seq); err != nil {
			r.t.Fatalf("%s: %v", name, err)
		}
	}
}

// led says whether a controller has come to lead after a position.
func (r *rig) led(c *part, after events.Seq) bool {
	r.t.Helper()
	l := r.fold().Fleet().Leader
	return l.Seq > after && l.Controller == c.service.Name
}

// ledBy returns the streams that a node leads.
func (r *rig) ledBy(node *part) (all []string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	list := r.js.ListStreams(ctx)
	for s := range list.Info() {
		if s.Cluster != nil && s.Cluster.Leader == node.service.Name {
			all = append(all, s.Config.Name)
		}
	}
	if err := list.Err(); err != nil {
		r.t.Fatal(err)
	}
	return all
}

// elected returns how long it takes until each of these streams has a leader
// that is not a node that died.
func (r *rig) elected(streams []string, dead *part, since time.Time) time.Duration {
	for _, name := range streams {
		for time.Since(since) < within {
			leader, err := r.streamLeader(name)
			if err == nil && leader != "" && leader != dead.service.Name {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return time.Since(since)
}
