package main

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/position"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// pastFlag is the flag --at of verbs that read.
type pastFlag struct{ at string }

func (p *pastFlag) register(flags *pflag.FlagSet) {
	flags.StringVar(&p.at, "at", "", "show what was at a `position` of the history: "+position.Form)
}

// given says whether the past was asked for.
func (p *pastFlag) given() bool { return p.at != "" }

// refuseWatch is an error for the past that is to be watched.
func (p *pastFlag) refuseWatch(watch bool) error {
	if p.given() && watch {
		return exit.Usagef("--at and --watch do not go together: the past does not change")
	}
	return nil
}

// views returns the fleet's views: as they are, or as they were, which it says on
// standard error.
func (p *pastFlag) views(cmd *cobra.Command, f *fleet, o *kvview.PastOptions) (*kvview.Reader, error) {
	if !p.given() {
		return f.views(cmd)
	}
	log, err := f.log(cmd.Context())
	if err != nil {
		return nil, err
	}
	seq, err := f.moment(cmd.Context(), log, p.at)
	if err != nil {
		return nil, err
	}
	r, err := kvview.Past(cmd.Context(), log, seq, o)
	if err != nil {
		return nil, err
	}
	when, err := f.stored(cmd.Context(), seq)
	if err != nil {
		return nil, err
	}
	cmd.PrintErrf("as of seq %d, %s\n", seq, when.Local().Format(time.DateTime))
	return r, nil
}

// now is the moment that what is shown is of.
func (p *pastFlag) now(r *kvview.Reader) time.Time {
	if p.given() {
		return r.AsOf().Time
	}
	return time.Now()
}

// moment returns the last event at a position.
func (f *fleet) moment(ctx context.Context, log *jetlog.Log, text string) (events.Seq, error) {
	now := time.Now()
	p, err := position.Parse(text, now)
	if err != nil {
		return 0, err
	}
	head, err := log.Head(ctx)
	if err != nil {
		return 0, err
	}
	return position.Moment(head.Seq, p, now, f.at(ctx))
}

// stored returns when an event was stored.
func (f *fleet) stored(ctx context.Context, seq events.Seq) (time.Time, error) { return f.at(ctx)(seq) }

// at returns a function that tells when events were stored.
func (f *fleet) at(ctx context.Context) position.Stored {
	stream, err := f.js.Stream(ctx, jetlog.StreamName(f.id, "events"))
	return func(s events.Seq) (time.Time, error) {
		if err != nil {
			return time.Time{}, errors.Wrap(err, "find the history")
		}
		m, err := stream.GetMsg(ctx, uint64(s))
		if err != nil {
			return time.Time{}, errors.Wrapf(err, "find out when event %d was stored", s)
		}
		return m.Time, nil
	}
}
