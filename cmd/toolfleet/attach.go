package main

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// openLog opens the history of the fleet that the flags name. The caller closes
// it.
func openLog(ctx context.Context, f *attach.Flags) (log *jetlog.Log, closeLog func(), err error) {
	fleet, err := f.FleetID()
	if err != nil {
		return nil, nil, err
	}
	nc, err := f.Connect(ctx, "toolfleet", nil)
	if err != nil {
		return nil, nil, err
	}
	log, err = jetlog.Open(ctx, nc, fleet, nil)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return log, nc.Close, nil
}

// format is the value of -o.
type format struct{ json bool }

func (f *format) register(flags *pflag.FlagSet) {
	flags.VarP(f, "output", "o", "format of the output: text or json")
}

func (f *format) String() string {
	if f.json {
		return "json"
	}
	return "text"
}

func (f *format) Type() string { return "format" }

func (f *format) Set(s string) error {
	if s != "text" && s != "json" {
		return exit.Usagef("use text or json")
	}
	f.json = s == "json"
	return nil
}
