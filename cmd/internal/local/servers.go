package local

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/toolfleet/toolfleet/cmd/internal/files"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/discovery"
	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// names returns the ids of what is declared, for people.
func (f *fleet) names() []string {
	var ids []string
	for _, s := range f.Servers {
		for _, e := range s.Entries {
			ids = append(ids, string(e.ID))
		}
	}
	return ids
}

// note says something of the servers, and keeps it for who started this in the
// background.
func (f *fleet) note(lines ...string) {
	for _, line := range lines {
		fmt.Fprintln(show.Terminal(f.Err), line)
	}
	f.notes = append(f.notes, lines...)
}

func (f *fleet) client(secrets client.Secrets) *client.Client {
	return client.New(f.controller.Conn(), f.Fleet, &client.Options{Secrets: secrets})
}

// withdraw withdraws what an earlier start declared from the same sources, and
// they have no longer; it says what else the fleet has.
func (f *fleet) withdraw(ctx context.Context, r *kvview.Reader) (last events.Seq, err error) {
	for _, e := range r.Servers() {
		s := &e.Value
		switch {
		case !s.Exists() || slices.ContainsFunc(f.Servers, func(x files.Servers) bool { return x.Has(s.ID) }):
		case files.Withdrawn(f.Servers, s):
			answer, err := f.client(nil).Withdraw(ctx, s.ID, &client.RequestOptions{Reason: "it is not in the file any more"})
			if err != nil {
				return 0, err
			}
			last = max(last, answer.Seq)
			f.note(fmt.Sprintf("server %s is not in the file any more: withdrawn", s.ID))
		default:
			f.note(fmt.Sprintf("server %s goes on from an earlier start", s.ID))
		}
	}
	return last, nil
}

// declare declares the servers and returns the last event that this caused. A
// server that is refused is told of and does not keep the others.
func (f *fleet) declare(ctx context.Context) (last events.Seq, err error) {
	secrets, err := f.controller.Secrets(ctx)
	if err != nil {
		return 0, err
	}
	c := f.client(secrets)
	for _, s := range f.Servers {
		f.note(s.Notes...)
		for i, d := range declareAll(ctx, c, s.Entries) {
			switch {
			case d.err == nil:
				last = max(last, d.answer.Seq)
			case ctx.Err() != nil:
				return 0, d.err
			default:
				f.note(fmt.Sprintf("server %s was refused: %v", s.Entries[i].ID, d.err))
			}
		}
	}
	return last, nil
}

// declaration is what became of one entry.
type declaration struct {
	answer request.Answer
	err    error
}

// declaredAtOnce bounds the requests under way, so that a long file does not fill
// the controller's room for them.
const declaredAtOnce = 16

// declareAll declares the servers of one file side by side.
func declareAll(ctx context.Context, c *client.Client, entries []discovery.Entry) []declaration {
	all := make([]declaration, len(entries))
	room := make(chan struct{}, declaredAtOnce)
	var asked sync.WaitGroup
	for i := range entries {
		room <- struct{}{}
		asked.Go(func() {
			all[i].answer, all[i].err = c.Declare(ctx, entries[i].ID, &entries[i].Definition, nil)
			<-room
		})
	}
	asked.Wait()
	return all
}
