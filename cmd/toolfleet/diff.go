package main

import (
	"cmp"
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/position"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/story"
)

func newDiff() *cobra.Command {
	var (
		flags    attach.Flags
		from, to string
	)
	format := show.NewFormat(show.Table, show.JSON, show.YAML)
	cmd := &cobra.Command{
		Use:   "diff --from POSITION [--to POSITION]",
		Short: "Show what is different between two moments",
		Long: "Shows what is different between two moments: servers with the members of their\n" +
			"definitions and their states, tools, and workers.",
		Example: "  toolfleet diff --from 1h\n  toolfleet diff --from 1200 --to 1500 -o json",
		Args:    exit.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" {
				return exit.Usagef("usage: %s", cmd.UseLine())
			}
			f, err := attachTo(cmd.Context(), &flags)
			if err != nil {
				return err
			}
			defer f.close()
			a, b, err := f.moments(cmd, from, to)
			if err != nil {
				return err
			}
			d := story.Compare(a, b)
			if show.None(d) && !format.Data() {
				say(cmd, "nothing is different")
			}
			return show.Difference(cmd.OutOrStdout(), format, d)
		},
	}
	flags.Register(cmd.Flags())
	format.Register(cmd.Flags())
	cmd.Flags().StringVar(&from, "from", "", "`position` to begin at: "+position.Form)
	cmd.Flags().StringVar(&to, "to", "", "`position` to end at (default: now)")
	return cmd
}

// moments folds the history up to two positions, in one pass.
func (f *fleet) moments(cmd *cobra.Command, from, to string) (a, b *story.Moment, err error) {
	ctx := cmd.Context()
	log, err := f.log(ctx)
	if err != nil {
		return nil, nil, err
	}
	first, err := f.moment(ctx, log, from)
	if err != nil {
		return nil, nil, err
	}
	last, err := f.moment(ctx, log, cmp.Or(to, "0s"))
	if err != nil {
		return nil, nil, err
	}
	if last < first {
		return nil, nil, exit.Usagef("--to is event %d, before --from, event %d", last, first)
	}
	lists := newLists(ctx, log)
	var h projections.History
	for r, err := range log.Follow(ctx, 0, &jetlog.FollowOptions{Until: last}) {
		if err != nil {
			return nil, nil, err
		}
		if h.Apply(r); r.Seq == first {
			a = &story.Moment{Time: r.Time, History: h.Clone(), Tools: lists.tools}
		}
		if r.Seq == last {
			b = &story.Moment{Time: r.Time, History: &h, Tools: lists.tools}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	cmd.PrintErrf("from seq %d, %s, to seq %d, %s\n", first, a.Time.Local().Format(time.DateTime), last, b.Time.Local().Format(time.DateTime))
	return a, b, nil
}

// lists reads lists of tools, each once.
type lists struct {
	ctx  context.Context //nolint:containedctx // of the command, which these live as long as
	log  *jetlog.Log
	read map[events.Digest]map[string]events.Digest
}

func newLists(ctx context.Context, log *jetlog.Log) *lists {
	return &lists{ctx, log, make(map[events.Digest]map[string]events.Digest)}
}

// tools returns the names in a list with the digests of their definitions; false
// where it cannot be read.
func (l *lists) tools(d events.Digest) (map[string]events.Digest, bool) {
	tools, known := l.read[d]
	if !known {
		tools = l.fetch(d)
		l.read[d] = tools
	}
	return tools, tools != nil
}

func (l *lists) fetch(d events.Digest) map[string]events.Digest {
	data, err := read(l.ctx, l.log, d)
	var items []jsontext.Value
	if err != nil || json.Unmarshal(data, &items) != nil {
		return nil
	}
	tools := make(map[string]events.Digest, len(items))
	for _, item := range items {
		var named struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(item, &named) == nil {
			tools[named.Name] = events.DigestOf(item)
		}
	}
	return tools
}

// names returns the names in a list; false where it cannot be read.
func (l *lists) names(d events.Digest) ([]string, bool) {
	tools, known := l.tools(d)
	names := make([]string, 0, len(tools))
	for name := range tools {
		names = append(names, name)
	}
	return names, known
}
