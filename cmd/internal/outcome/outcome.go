// Package outcome does the same thing to many servers, side by side, and tells of
// each how it went.
package outcome

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
)

// atOnce bounds how many are under way: a fleet of hundreds is still done in a
// few rounds, and no controller is flooded.
const atOnce = 32

// Each does something to each of the ids, in parallel, and writes one line an id
// when it is done: to out what it came to, or to errs why it failed, with the
// ways out below it. None waits for another, or stops because of one.
//
// The error is nil if all went well. Otherwise it was told already ([exit.Told])
// and has the status that all failures have in common, or [exit.Failed].
func Each(ctx context.Context, out, errs io.Writer, ids []string, do func(ctx context.Context, id string) (string, error)) error {
	out, errs = show.Terminal(out), show.Terminal(errs)
	widest := 0
	for _, id := range ids {
		widest = max(widest, len(id))
	}
	var (
		mu     sync.Mutex // guards the writers and failed
		failed []exit.Status
		all    sync.WaitGroup
		room   = make(chan struct{}, atOnce)
	)
	for _, id := range ids {
		all.Go(func() {
			room <- struct{}{}
			words, err := do(ctx, id)
			<-room
			mu.Lock()
			defer mu.Unlock()
			name := fmt.Sprintf("%-*s  ", widest, id)
			if err == nil {
				fmt.Fprintln(out, name+words)
				return
			}
			failed = append(failed, exit.Of(err))
			fmt.Fprintf(errs, "%sfailed: %v\n", name, err)
			for _, hint := range errors.GetAllHints(err) {
				fmt.Fprintf(errs, "%s  %s\n", strings.Repeat(" ", len(name)), hint)
			}
		})
	}
	all.Wait()
	if len(failed) == 0 {
		return nil
	}
	for _, s := range failed {
		if s != failed[0] || len(ids) > len(failed) {
			return exit.Told(exit.Failed)
		}
	}
	return exit.Told(failed[0])
}
