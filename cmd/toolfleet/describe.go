package main

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

func newDescribe() *cobra.Command {
	var (
		flags attach.Flags
		past  pastFlag
	)
	format := show.NewFormat(show.Text, show.JSON, show.YAML)
	cmd := &cobra.Command{
		Use:   "describe SERVER|WORKER",
		Short: "Show all there is to know of a server or a worker",
		Args:  exit.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := attachTo(cmd.Context(), &flags)
			if err != nil {
				return err
			}
			defer f.close()
			// A server's past is that of its own chains; a worker owns what others' tell.
			r, err := past.views(cmd, f, &kvview.PastOptions{Chains: ofServer(args[0]), Lists: true})
			if err == nil && past.given() && r.Server(events.ServerID(args[0])) == nil {
				r, err = f.again(cmd.Context(), r)
			}
			if err != nil {
				return err
			}
			upTo := events.Seq(0)
			if past.given() {
				upTo = r.AsOf().Seq
			}
			return f.describe(cmd, r, format, args[0], upTo)
		},
	}
	flags.Register(cmd.Flags())
	format.Register(cmd.Flags())
	past.register(cmd.Flags())
	return cmd
}

func (f *fleet) describe(cmd *cobra.Command, r *kvview.Reader, format *show.Format, id string, upTo events.Seq) error {
	if e := r.Server(events.ServerID(id)); e != nil && e.Value.Exists() {
		last, err := f.lastEvents(cmd.Context(), upTo, ofServer(id))
		if err != nil {
			return err
		}
		n, _ := r.Status(e.Value.ID)
		if upTo == 0 { // else only the server's own chains are known
			n.Waiting = show.Waiting(r)[n.ID]
			say(cmd, show.Notes(r)...)
		}
		d, err := show.NewDescription(n, &e.Value, namesOfTools(r, e.Value.ID), last)
		if err != nil {
			return err
		}
		return d.Write(cmd.OutOrStdout(), format)
	}
	workers := show.ReadWorkers(r)
	for i := range workers {
		if w := &workers[i]; string(w.ID) == id {
			last, err := f.lastEvents(cmd.Context(), upTo, ofWorker(id))
			if err != nil {
				return err
			}
			return show.DescribeWorker(cmd.OutOrStdout(), format, w, last)
		}
	}
	all := among(r, everyone)
	for i := range workers {
		all = append(all, string(workers[i].ID))
	}
	return unknown("server or worker", id, all)
}

// namesOfTools returns the names of a server's own tools, as one of its instances
// has them.
func namesOfTools(r *kvview.Reader, id events.ServerID) []string {
	names := []string{}
	for _, i := range r.Instances(id) {
		t := r.Tools(id, i.Value.Instance)
		if t == nil {
			continue
		}
		var tools []struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(jsontext.Value(t.Value.Tools), &tools) != nil {
			continue // they are too many to be in the views: the count has to do
		}
		for _, x := range tools {
			names = append(names, x.Name)
		}
		break
	}
	return names
}

const (
	// lookedAt is how many of the last events are looked at for those about one
	// thing, and shown is how many of them are shown.
	lookedAt = 5000
	shown    = 10
)

// again returns all views of the moment that some were read of.
func (f *fleet) again(ctx context.Context, r *kvview.Reader) (*kvview.Reader, error) {
	log, err := f.log(ctx)
	if err != nil {
		return nil, err
	}
	return kvview.Past(ctx, log, r.AsOf().Seq, nil)
}

// lastEvents returns the last few events of certain chains, up to a position; 0 is
// the end.
func (f *fleet) lastEvents(ctx context.Context, upTo events.Seq, chains []string) ([]events.Record, error) {
	log, err := f.log(ctx)
	if err != nil {
		return nil, err
	}
	if upTo == 0 {
		head, err := log.Head(ctx)
		if err != nil || head.Seq == 0 {
			return nil, err
		}
		upTo = head.Seq
	}
	var last []events.Record
	o := &jetlog.SelectOptions{After: max(upTo, lookedAt) - lookedAt, Until: upTo}
	for r, err := range log.Select(ctx, chains, o) {
		if err != nil {
			return nil, err
		}
		if last = append(last, r); len(last) > shown {
			last = last[1:]
		}
	}
	return last, nil
}

// ofServer and ofWorker are the patterns of the chains about one thing; none for
// what is no id.
func ofServer(id string) []string {
	if _, err := events.ParseServerID(id); err != nil {
		return nil
	}
	return []string{"server." + id, "instance." + id + ".*"}
}

func ofWorker(id string) []string { return []string{"worker." + id} }
