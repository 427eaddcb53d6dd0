package session

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// await returns the owner to send the call to, as soon as there is one that is
// ready. It is another one than refused the call, or a pause has passed.
func (c *call) await(ctx context.Context) (owner, error) {
	if !c.until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.until)
		defer cancel()
	}
	retry := time.NewTimer(c.pause)
	defer retry.Stop()
	for {
		now, changed := c.session.load()
		to, err := c.look(now)
		switch {
		case err != nil:
			return owner{}, err
		case to != (owner{}) && to != c.refused:
			return to, nil
		}
		select {
		case <-changed:
		case <-retry.C:
			c.refused = owner{}
		case <-ctx.Done():
			return owner{}, c.waitedEnough(ctx, now)
		}
	}
}

// refuse notes that an owner did not take the call.
func (c *call) refuse(to owner) {
	if to == c.last {
		c.pause = min(2*c.pause, longestPause)
	} else {
		c.pause = firstPause
	}
	c.refused, c.last = to, to
}

// waitLimit returns when a call whose context has no deadline has waited enough
// for its server; zero for without end.
func (c *call) waitLimit(ctx context.Context) time.Time {
	if _, bounded := ctx.Deadline(); bounded {
		return time.Time{}
	}
	limit := events.DefaultConnectTimeout
	now, _ := c.session.load()
	if m := now.catalogue.member(c.server); m != nil {
		limit = m.server.Definition.ConnectTimeout()
	}
	if limit == 0 {
		return time.Time{}
	}
	return time.Now().Add(limit)
}

// look returns the owner that is ready, none while one is expected, or an error
// when none is.
func (c *call) look(now *moment) (owner, error) {
	m := now.catalogue.member(c.server)
	if m == nil {
		return owner{}, c.notExecuted(nil, "the fleet no longer has the server")
	}
	if i := m.used(); i != nil {
		return c.lookAt(i)
	}
	if n := m.status(); !hopeful(&n) {
		return owner{}, c.notExecuted(n.Failure, unavailable(&n))
	}
	return owner{}, nil
}

// lookAt looks at the instance that the session uses.
func (c *call) lookAt(i *projections.Instance) (owner, error) {
	if c.base == nil {
		c.base = make(map[events.InstanceID]int)
	}
	base, seen := c.base[i.Instance]
	if !seen {
		base = i.Failures
		c.base[i.Instance] = base
	}
	switch {
	case i.State.Working():
		return owner{i.Instance, i.Epoch}, nil
	case i.Failures-base >= maxFailures && i.LastFailure != nil:
		return owner{}, c.notExecuted(i.LastFailure, "it failed again")
	default:
		return owner{}, nil
	}
}

// unavailable says why a server is not expected to work.
func unavailable(n *projections.Status) string {
	switch {
	case !n.Enabled:
		return "the server is disabled"
	case n.Want == events.Stopped:
		return "the server is stopped"
	default:
		return "the server is " + string(n.State)
	}
}

func (c *call) notExecuted(f *projections.Fault, why string) error {
	e := c.newError(ErrNotExecuted, errors.New(why))
	if f != nil {
		e.Failure = f.Failure
	}
	return errors.WithStack(e)
}

// waitedEnough is the error of a call whose context ended before there was an
// owner.
func (c *call) waitedEnough(ctx context.Context, now *moment) error {
	e := c.newError(ErrNotExecuted, context.Cause(ctx))
	if errors.Is(ctx.Err(), context.Canceled) {
		e.Outcome = ErrCancelled
	} else if m := now.catalogue.member(c.server); m != nil && failureOf(m.instances) != nil {
		e.Failure = failureOf(m.instances).Failure
	} else {
		e.Failure.Message = "the server was not ready in time"
	}
	return errors.WithStack(e)
}
