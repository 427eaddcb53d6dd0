package session

import (
	"context"
	"fmt"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// Wait returns nil as soon as the session has seen the fleet's history up to a
// position, such as that of a request's answer; else the context's error, or
// that the session is closed. One that is off waits for nothing.
func (s *Session) Wait(ctx context.Context, seq events.Seq) error {
	if s.options.Off {
		return nil
	}
	return s.watch(ctx, func(now *moment) (string, error) {
		if now.asOf.Seq >= seq {
			return "", nil
		}
		return fmt.Sprintf("event %d", seq), nil
	})
}

// WaitReady returns nil as soon as those servers are ready: they work, and their
// tools are listed as live. Without any it waits for all that the session sees
// and that should run.
//
// It waits as long as a server is expected to be ready by itself. The error
// names each server that is not: marked [ErrUnknownServer] if the session does
// not see it (after a request that declares it, [Session.Wait] first), and
// otherwise a [*ServerError]; and it is the context's for those that are still
// missing when that ends.
func (s *Session) WaitReady(ctx context.Context, servers ...events.ServerID) error {
	return s.watch(ctx, func(now *moment) (string, error) {
		ids := servers
		if len(ids) == 0 {
			ids = now.catalogue.wanted()
		}
		return now.catalogue.missing(ids)
	})
}

// watch looks at every moment until nothing is missing, or something went wrong.
func (s *Session) watch(ctx context.Context, look func(*moment) (missing string, err error)) error {
	for {
		now, moved := s.load()
		missing, err := look(now)
		if missing == "" {
			return err
		}
		select {
		case <-moved:
		case <-s.life.Done():
			return errors.Wrapf(errClosed, "wait for %s", missing)
		case <-ctx.Done():
			return errors.Join(err, errors.Wrapf(ctx.Err(), "wait for %s", missing))
		}
	}
}

// wanted returns the servers that should run.
func (c *catalogue) wanted() (ids []events.ServerID) {
	for i := range c.members {
		if s := c.members[i].server; s.Wanted() == events.Running {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// missing names the servers that are not ready yet, and joins the errors of
// those that will not be.
func (c *catalogue) missing(ids []events.ServerID) (string, error) {
	var (
		missing []string
		failed  []error
	)
	for _, id := range ids {
		m := c.member(id)
		if m == nil {
			failed = append(failed, errors.Mark(errors.Newf("the session sees no server %s", id), ErrUnknownServer))
			continue
		}
		switch n := m.status(); {
		case m.ready(&n):
		case n.Status == projections.IsConnected, hopeful(&n):
			missing = append(missing, fmt.Sprintf("server %s, which is %s", id, n.State))
		default:
			failed = append(failed, newServerError(&n))
		}
	}
	return strings.Join(missing, " and "), errors.Join(failed...)
}
