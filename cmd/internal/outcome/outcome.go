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
	t := newTeller(out, errs, ids)
	var all sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for _, id := range ids {
		all.Go(func() {
			room <- struct{}{}
			words, err := do(ctx, id)
			<-room
			t.tell(id, words, err)
		})
	}
	all.Wait()
	return t.result()
}

// InTurn is [Each] for what takes no time: one after the other, and so told of in
// the order of the ids.
func InTurn(ctx context.Context, out, errs io.Writer, ids []string, do func(ctx context.Context, id string) (string, error)) error {
	t := newTeller(out, errs, ids)
	for _, id := range ids {
		words, err := do(ctx, id)
		t.tell(id, words, err)
	}
	return t.result()
}

// teller tells of outcomes.
type teller struct {
	ids, widest int

	mu        sync.Mutex // guards the writers and failed
	out, errs io.Writer
	failed    []exit.Status
}

func newTeller(out, errs io.Writer, ids []string) *teller {
	t := &teller{ids: len(ids), out: show.Terminal(out), errs: show.Terminal(errs)}
	for _, id := range ids {
		t.widest = max(t.widest, len(id))
	}
	return t
}

func (t *teller) tell(id, words string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := fmt.Sprintf("%-*s  ", t.widest, id)
	if err == nil {
		fmt.Fprintln(t.out, name+words)
		return
	}
	t.failed = append(t.failed, exit.Of(err))
	fmt.Fprintf(t.errs, "%sfailed: %v\n", name, err)
	for _, hint := range errors.GetAllHints(err) {
		fmt.Fprintf(t.errs, "%s  %s\n", strings.Repeat(" ", len(name)), hint)
	}
}

func (t *teller) result() error {
	if len(t.failed) == 0 {
		return nil
	}
	for _, s := range t.failed {
		if s != t.failed[0] || t.ids > len(t.failed) {
			return exit.Told(exit.Failed)
		}
	}
	return exit.Told(t.failed[0])
}
