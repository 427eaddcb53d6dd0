package main

import (
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/near"
	"github.com/toolfleet/toolfleet/cmd/internal/snippet"
	"github.com/toolfleet/toolfleet/cmd/internal/tokens"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/guard"
)

// connect is the command with its flags.
type connect struct {
	attach.Flags
	http, stdio, withToken, print bool
	url                           string
}

func newConnect() *cobra.Command {
	var c connect
	known := strings.Join(snippet.Clients(), "|")
	cmd := &cobra.Command{
		Use:   "connect (" + known + ")",
		Short: "Print what an MCP client has to be told to attach to the fleet",
		Long: "Prints what belongs into the configuration file of an MCP client, so that its agents\n" +
			"see the fleet as one MCP server: one that the client starts (--stdio), or the URL of\n" +
			"what runs (--http). Which file that is, it says on standard error; no file is changed.\n\n" +
			"A token is referred to, not written: by a variable of the environment, or an input of\n" +
			"the client. With --with-token it is written as it is.",
		Example:   "  toolfleet connect claude-code --print > .mcp.json\n  toolfleet connect vscode --http",
		ValidArgs: snippet.Clients(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && slices.Contains(snippet.Clients(), args[0]) {
				return nil
			}
			err := exit.Usagef("usage: toolfleet connect %s", known)
			for _, a := range args {
				for _, n := range near.Names(a, snippet.Clients()) {
					err = errors.WithHintf(err, "did you mean %s?", n)
				}
			}
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) },
	}
	c.Register(cmd.Flags())
	flags := cmd.Flags()
	flags.BoolVar(&c.stdio, "stdio", false, "have the client start a process (default)")
	flags.BoolVar(&c.http, "http", false, "have the client use HTTP")
	flags.StringVar(&c.url, "url", "", "`URL` of the MCP endpoint for --http (default: that of the running toolfleet up)")
	flags.BoolVar(&c.withToken, "with-token", false, "write the token itself")
	flags.BoolVar(&c.print, "print", true, "print it")
	return cmd
}

func (c *connect) run(cmd *cobra.Command, client string) error {
	switch {
	case c.http && c.stdio:
		return exit.Usagef("--http and --stdio are both given: use one")
	case c.url != "" && !c.http:
		return exit.Usagef("--url belongs to --http")
	case !c.print:
		return exit.Usagef("--print=false: there is nothing else to do")
	}
	fleet, err := c.fleet()
	if err != nil {
		return err
	}
	s, err := snippet.For(client, fleet)
	if errors.Is(err, snippet.ErrNoHTTP) {
		err = exit.With(exit.Usage, errors.WithHint(err, "use --stdio"))
	}
	if err != nil {
		return err
	}
	notes := []string{"this belongs into " + s.File}
	if s.Token {
		notes = append(notes, "and this into the client's environment: export "+snippet.Variable+"=$(toolfleet token --scope call"+c.Flag()+")")
	}
	say(cmd, notes...)
	_, err = io.WriteString(cmd.OutOrStdout(), s.Text)
	return errors.Wrap(err, "write the output")
}

// fleet returns how the client is to reach the fleet.
func (c *connect) fleet() (f *snippet.Fleet, err error) {
	id, err := c.FleetID()
	if err != nil {
		return nil, err
	}
	f = &snippet.Fleet{Name: "fleet", Command: program()}
	if id != events.DefaultFleet {
		f.Name += "-" + string(id)
	}
	if !c.http {
		args, env, err := c.Arguments(c.withToken)
		f.Args, f.Env = append([]string{"mcp"}, args...), env
		return f, err
	}
	if f.URL, err = c.endpoint(); err != nil {
		return nil, err
	}
	if c.withToken {
		path, err := tokenFile(&c.Flags, "")
		if err != nil {
			return nil, err
		}
		f.Token, err = tokens.Token(path, guard.Call)
		return f, err
	}
	return f, nil
}

// program returns how a client starts this program: by its name if that is found,
// else by its path. Programs with a window often look in fewer places than a shell.
func program() string {
	const name = "toolfleet"
	self, err := os.Executable()
	if err != nil {
		return name
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return self
	}
	a, err1 := os.Stat(self)
	b, err2 := os.Stat(found)
	if err1 != nil || err2 != nil || !os.SameFile(a, b) {
		return self
	}
	return name
}

// endpoint returns the URL of the fleet's MCP endpoint.
func (c *connect) endpoint() (string, error) {
	if c.url != "" {
		return c.url, nil
	}
	r, ok := c.Local()
	switch {
	case !ok:
		return "", errors.WithHint(errors.New("no toolfleet up is running on this host"), "name the endpoint: --url http://HOST:8377/mcp")
	case r.HTTP == "":
		return "", errors.WithHint(errors.New("the running toolfleet up serves no HTTP"), "start it without --http off, or name an endpoint: --url")
	default:
		return r.HTTP + "/mcp", nil
	}
}
