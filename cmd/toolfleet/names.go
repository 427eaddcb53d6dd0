package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/projections"
)

// schemes are the words for the schemes of names, in their order.
var schemes = [...]string{projections.Qualified: "qualified", projections.Prefixed: "prefixed", projections.OnCollision: "on-collision"}

// schemeFlag is a scheme of names as a flag.
type schemeFlag projections.Scheme

func (f *schemeFlag) register(flags *pflag.FlagSet) {
	flags.Var(f, "names", "how tools and prompts are named: qualified (server__tool), prefixed (mcp_server_tool)\n"+
		"or on-collision (as the server names them, where only one has that name)")
}

func (f *schemeFlag) String() string { return schemes[*f] }

// Type is the flag's placeholder.
func (f *schemeFlag) Type() string { return "scheme" }

// Set implements [pflag.Value].
func (f *schemeFlag) Set(word string) error {
	for scheme, w := range schemes {
		if w == word {
			*f = schemeFlag(scheme)
			return nil
		}
	}
	return exit.Usagef("it is one of %s", strings.Join(schemes[:], ", "))
}
