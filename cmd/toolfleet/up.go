package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/detach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/files"
	"github.com/toolfleet/toolfleet/cmd/internal/local"
	"github.com/toolfleet/toolfleet/cmd/internal/parts"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
)

// up is the command with its flags.
type up struct {
	local.Options
	flags    attach.Flags
	paths    []string
	example  bool
	detached bool
}

func newUp() *cobra.Command {
	var u up
	cmd := &cobra.Command{
		Use:   "up [-f FILE... | --example]",
		Short: "Run a whole fleet in this process",
		Long: "Runs NATS with JetStream, a controller and a worker in this process, declares the\n" +
			"servers of configuration files (the mcpServers shape) and shows what becomes of\n" +
			"them. What the fleet knows is kept in --data, and a later start goes on from there:\n" +
			"it needs no file.\n" +
			"Ctrl-C stops everything, servers first; with -d, toolfleet down does.\n\n" +
			"It serves HTTP, to who has a token (toolfleet token prints it): agents at /mcp, and\n" +
			"/v1/servers, workers, tools and events; /openapi.json describes all of it.",
		Example: "  toolfleet up --example\n  toolfleet up -f ~/.config/mcp.json -d",
		Args:    exit.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return u.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&u.paths, "file", "f", nil, "configuration `file` with the servers to run; may be repeated")
	flags.BoolVar(&u.example, "example", false, "run the example server")
	flags.BoolVarP(&u.detached, "detach", "d", false, "run in the background, and return when the fleet is up")
	u.flags.RegisterFleet(flags)
	flags.StringVar(&u.Data, "data", "", "`folder` for what the fleet knows (default: the fleet's state folder)")
	flags.StringVar(&u.NATS.Listen, "listen", "", "`host:port` for NATS (default: a free port on 127.0.0.1)")
	flags.TextVar(&u.NATS.Durability, "durability", &u.NATS.Durability,
		"when acknowledged events are on disk, `interval|always`: 200 ms later, or at once (slower)")
	u.HTTP.Register(flags, true)
	return cmd
}

func (u *up) run(cmd *cobra.Command) (err error) {
	if u.Fleet, err = u.flags.FleetID(); err != nil {
		return err
	}
	if len(u.paths) == 0 && !u.example && !u.goesOn() {
		return nothingToRun()
	}
	if u.Servers, err = files.Read(u.paths...); err != nil {
		return err
	}
	if u.example {
		example, err := files.Example()
		if err != nil {
			return err
		}
		u.Servers = append(u.Servers, example)
	}
	if u.detached {
		return u.detach(cmd)
	}
	u.Out, u.Err = cmd.OutOrStdout(), cmd.ErrOrStderr()
	return local.Run(cmd.Context(), &u.Options)
}

// goesOn says whether there is a fleet from an earlier start.
func (u *up) goesOn() bool {
	data := u.Data
	if data == "" {
		folder, err := attach.StateFolder(u.Fleet)
		if err != nil {
			return false // it is said by what needs it
		}
		data = string(folder)
	}
	return parts.HasStore(data)
}

// nothingToRun names the files that could be run.
func nothingToRun() error {
	err := exit.Usagef("give -f FILE or --example")
	folder, e1 := os.Getwd()
	home, e2 := os.UserHomeDir()
	if e1 != nil || e2 != nil {
		return err
	}
	found := files.Find(folder, home)
	for _, f := range found {
		what := show.Count(f.Servers, "server") + " of " + f.Program
		if f.Err != nil {
			what = f.Program + ", in a form that is not read"
		}
		err = errors.WithHintf(err, "toolfleet up -f %s  (%s)", quoted(f.Path), what)
	}
	if len(found) == 0 {
		err = errors.WithHint(err, "no configuration file was found in the usual places; --example needs none")
	}
	return err
}

// quoted returns a path as a shell takes it.
func quoted(path string) string {
	if strings.ContainsAny(path, " '\"$\\&;()") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

// startWithin bounds the start in the background; a large history has to be
// read.
const startWithin = 2 * time.Minute

// detach runs the same command in the background.
func (u *up) detach(cmd *cobra.Command) error {
	folder, err := attach.StateFolder(u.Fleet)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), startWithin)
	defer cancel()
	r, err := detach.Start(ctx, u.Fleet, folder, append(slices.Clone(os.Args[1:]), "--detach=false")) // the last one counts
	if err != nil {
		return errors.Wrap(err, "toolfleet up -d")
	}
	say(cmd, r.Notes...)
	out := show.Terminal(cmd.OutOrStdout())
	fmt.Fprintf(out, "fleet %s is up on %s, as process %d\n", u.Fleet, strings.Join(r.Addresses, ", "), r.PID)
	fmt.Fprintf(out, "other clients present the token in %s\n", r.TokenFile)
	if r.HTTP != "" {
		fmt.Fprintf(out, "HTTP is on %s, agents at /mcp, with the token that toolfleet token%s prints\n", r.HTTP, u.flags.Flag())
	}
	fmt.Fprintf(out, "see what it does: toolfleet status%s\n", u.flags.Flag())
	fmt.Fprintf(out, "stop it: toolfleet down%s\n", u.flags.Flag())
	return nil
}
