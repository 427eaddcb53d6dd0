package session

import (
	"context"
	"time"
)

// gate waits for servers that are starting, as the options say.
func (s *Session) gate(ctx context.Context) error {
	every := func(m *member) bool { return !m.unplaced(time.Now()) }
	// One that has failed already may take any time.
	unknown := func(m *member) bool {
		return len(m.tools.list) == 0 && failureOf(m.instances) == nil && !m.unplaced(time.Now())
	}
	if err := s.until(ctx, s.options.Wait, every); err != nil {
		return err
	}
	return s.until(ctx, s.options.StartupWait, unknown)
}

// until waits until no server of which that holds is starting, the tools that
// the session was opened for are there, or the limit has passed. Its error is
// that of a context that ended before.
func (s *Session) until(ctx context.Context, limit time.Duration, that func(*member) bool) error {
	if limit <= 0 {
		return nil
	}
	over := time.NewTimer(limit)
	defer over.Stop()
	for {
		now, moved := s.load()
		if s.satisfied(now) || len(now.catalogue.starting(that)) == 0 {
			return nil
		}
		select {
		case <-moved:
		case <-over.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// satisfied says whether the session offers the tools that it was opened for.
func (s *Session) satisfied(now *moment) bool {
	for _, name := range s.options.Need {
		if _, ok := now.catalogue.find(name); !ok {
			return false
		}
	}
	return len(s.options.Need) > 0
}
