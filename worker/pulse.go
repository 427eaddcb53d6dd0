package worker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/toolfleet/toolfleet/events"
)

// pulse notes when something last came from a server.
type pulse struct {
	born time.Time
	last atomic.Int64 // since then
}

func newPulse() *pulse { return &pulse{born: time.Now()} }

func (p *pulse) beat() {
	now := int64(time.Since(p.born))
	for last := p.last.Load(); now > last && !p.last.CompareAndSwap(last, now); last = p.last.Load() {
		// Another beat came between; it may be a later one.
	}
}

func (p *pulse) heard() time.Time { return p.born.Add(time.Duration(p.last.Load())) }

// elapsed returns the end of a timer, with what the checks of a server need to
// know. A server that does one thing at a time answers nothing while it executes
// a call, so its silence says nothing for as long as a call that it has begun may
// take. One that is deaf is given new calls as well, and never comes out of it:
// so that counts from when it was last heard.
func (i *instance) elapsed(at time.Time) Elapsed {
	e := Elapsed{Timer: i.alarm, Heard: at}
	if i.attempt == nil {
		return e
	}
	c := i.attempt.conn.Load()
	if c == nil {
		return e
	}
	e.Heard = c.heard()
	d := i.attempt.command.Definition
	limit := i.host.callLimit(d)
	e.Busy = c.calls.Load() > 0 && (limit == 0 || at.Sub(e.Heard) < limit+d.HealthCheckInterval())
	return e
}

// broken returns how the connection ends when it failed in a way that it does not
// notice itself.
func (c *conn) broken(f events.Failure) ending {
	e := ending{code: f.Code, message: f.Message, retry: f.Retry}
	if c.stderr != nil {
		e.stderr = c.stderr.String()
	}
	return e
}

// ask asks a server for a sign of life and waits for an answer until the context
// ends. It returns whether the answer was that there is no ping. The stateless
// revision has none.
func (c *conn) ask(ctx context.Context, ping bool) (unknown bool) {
	x := &exchange{}
	ctx = withExchange(ctx, x)
	switch {
	case c.hello.stateless:
		_, _ = c.client.Discover(ctx, mcp.DiscoverRequest{}) // an error is an answer
	case ping:
		//nolint:staticcheck // Deprecated with the handshake, which most servers still have.
		_ = c.client.Ping(ctx) // likewise
		return x.failure != nil && x.failure.Code == codeMethodNotFound
	default:
		_, _ = c.client.ListToolsByPage(ctx, mcp.ListToolsRequest{}) // likewise
	}
	return false
}
