package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/session"
)

func newPrompts() *cobra.Command {
	return newSessionList("prompts", "List the prompts of the fleet's servers",
		"Lists the prompts that servers offer, with their arguments: those of all servers,\n"+
			"or of some.", show.Prompts,
		func(s *session.Session, servers []string) (list []session.Prompt) {
			for _, p := range s.Prompts() {
				if len(servers) == 0 || slices.Contains(servers, string(p.Server)) {
					list = append(list, p)
				}
			}
			return list
		})
}
