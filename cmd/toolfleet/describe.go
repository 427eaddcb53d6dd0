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
	var flags attach.Flags
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
			r, err := f.views(cmd)
			if err != nil {
				return err
			}
			return f.describe(cmd, r, format, args[0])
		},
	}
	flags.Register(cmd.Flags())
	format.Register(cmd.Flags())
	return cmd
}

func (f *fleet) describe(cmd *cobra.Command, r *kvview.Reader, format *show.Format, id string) error {
	if e := r.Server(events.ServerID(id)); e != nil && e.Value.Exists() {
		last, err := f.lastEvents(cmd.Context(), func(c events.Chain) bool { return string(c.Server()) == id })
		if err != nil {
			return err
		}
		n, _ := r.Status(e.Value.ID)
		d, err := show.NewDescription(n, &e.Value, namesOfTools(r, e.Value.ID), last)
		if err != nil {
			return err
		}
		return d.Write(cmd.OutOrStdout(), format)
	}
	workers := show.ReadWorkers(r)
	for i := range workers {
		if w := &workers[i]; string(w.ID) == id {
			last, err := f.lastEvents(cmd.Context(), func(c events.Chain) bool { return string(c.Worker()) == id })
			if err != nil {
				return err
			}
			return w.Describe(cmd.OutOrStdout(), format, last)
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

// lastEvents returns the last few events of certain chains.
func (f *fleet) lastEvents(ctx context.Context, of func(events.Chain) bool) ([]events.Record, error) {
	log, err := f.log(ctx)
	if err != nil {
		return nil, err
	}
	head, err := log.Head(ctx)
	if err != nil || head.Seq == 0 {
		return nil, err
	}
	var last []events.Record
	for r, err := range log.Follow(ctx, max(head.Seq, lookedAt)-lookedAt, &jetlog.FollowOptions{Until: head.Seq}) {
		if err != nil {
			return nil, err
		}
		if of(r.Chain) {
			if last = append(last, r); len(last) > shown {
				last = last[1:]
			}
		}
	}
	return last, nil
}
