package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// move lets those who wait look again.
func (g *Gateway) move() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.moved)
	g.moved = make(chan struct{})
}

// await waits for servers that are starting and whose tools nobody knows, within
// the limit. One that has failed already may take any time: nobody waits for it.
// What is shared is the limit of each server.
func (g *Gateway) await(ctx context.Context, shared bool) {
	ctx, cancel := context.WithTimeout(ctx, max(0, g.options.StartupWait))
	defer cancel()
	for again := true; again; {
		g.mu.Lock()
		moved := g.moved
		g.mu.Unlock()
		servers := g.hopeful()
		until, _ := ctx.Deadline()
		if shared {
			servers, until = g.relax(servers)
		}
		if len(servers) == 0 || ctx.Err() != nil {
			return
		}
		again = g.awaitAny(ctx, servers, until, moved)
	}
}

// awaitAny waits until servers are ready or will not be, or it is time to look
// again.
func (g *Gateway) awaitAny(ctx context.Context, servers []events.ServerID, until time.Time, moved <-chan struct{}) (again bool) {
	ctx, stop := context.WithDeadline(ctx, until)
	ready := make(chan struct{})
	go func() {
		_ = g.session.WaitReady(ctx, servers...) // the list names what is missing
		close(ready)
	}()
	select {
	case <-moved:
		again = true
	case <-ready:
		again = ctx.Err() != nil
	}
	stop()
	<-ready
	return again
}

// relax returns those of some servers that were not waited for long enough, and
// until when the first of them is; it forgets all others.
func (g *Gateway) relax(servers []events.ServerID) (left []events.ServerID, until time.Time) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for id := range g.awaited {
		if !slices.Contains(servers, id) {
			delete(g.awaited, id)
		}
	}
	for _, id := range servers {
		since, ok := g.awaited[id]
		if !ok {
			since = now
			g.awaited[id] = now
		}
		if end := since.Add(g.options.StartupWait); end.After(now) {
			left = append(left, id)
			if until.IsZero() || end.Before(until) {
				until = end
			}
		}
	}
	return left, until
}

// hopeful returns the servers without known tools that are starting, and have not
// failed so far.
func (g *Gateway) hopeful() []events.ServerID {
	pending := g.session.Pending()
	if len(pending) == 0 {
		return nil
	}
	for _, n := range g.session.Status().Servers {
		if n.Failure != nil {
			pending = slices.DeleteFunc(pending, func(id events.ServerID) bool { return id == n.ID })
		}
	}
	return pending
}
