package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/projections/kvview"
	"github.com/toolfleet/toolfleet/session"
)

// pastTools lists the tools that a session would have offered.
func (o *sessionFlags) pastTools(cmd *cobra.Command, past *pastFlag, format *show.Format, servers []string) error {
	f, err := attachTo(cmd.Context(), &o.Flags)
	if err != nil {
		return err
	}
	defer f.close()
	r, err := past.views(cmd, f, &kvview.PastOptions{Lists: true})
	if err != nil {
		return err
	}
	known := among(r, everyone)
	for _, id := range servers {
		if !slices.Contains(known, id) {
			return unknown("server", id, known)
		}
	}
	var tools []session.Tool
	for _, t := range session.Past(r, &session.Options{Project: o.project}) {
		if len(servers) == 0 || slices.Contains(servers, string(t.Server)) {
			tools = append(tools, t)
		}
	}
	sayUnreadable(cmd, r)
	return writeTools(cmd, format, tools)
}

// sayUnreadable names, on standard error, the servers whose lists are not in the
// store any more.
func sayUnreadable(cmd *cobra.Command, r *kvview.Reader) {
	for _, s := range r.Servers() {
		for _, i := range r.Instances(s.Value.ID) {
			t := r.Tools(s.Value.ID, i.Value.Instance)
			if t != nil && t.Value.Count > 0 && t.Value.Tools == nil && s.Value.Offer(&i.Value) != "" {
				cmd.PrintErrf("the list of %d tools of %s cannot be read any more\n", t.Value.Count, s.Value.ID)
			}
		}
	}
}
