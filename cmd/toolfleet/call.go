package main

import (
	"context"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/arguments"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/near"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
)

func newCall() *cobra.Command {
	var (
		o       sessionFlags
		timeout time.Duration
	)
	format := show.NewFormat(show.Text, show.JSON, show.YAML)
	cmd := &cobra.Command{
		Use:   "call TOOL [JSON | NAME=TEXT | NAME:=JSON ...]",
		Short: "Call a tool",
		Long: "Calls a tool with arguments: a JSON object, \"-\" to read that from standard input,\n" +
			"or single arguments, as text or as JSON. They are checked against the tool's\n" +
			"schema before anything is sent. Writes the text of the result, or with -o json\n" +
			"the whole result as the server sent it. The exit status is 5 if the tool reports\n" +
			"an error.",
		Example: `  toolfleet call example__convert_units '{"value": 3, "from": "mi", "to": "km"}'` + "\n" +
			`  toolfleet call example__convert_units value:=3 from=mi to=km`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usagef("usage: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			given, err := arguments.Read(args[1:], cmd.InOrStdin())
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			r, err := o.call(ctx, cmd, args[0], given)
			if err != nil {
				return err
			}
			if err := show.Result(cmd.OutOrStdout(), format, r); err != nil {
				return err
			}
			if r.IsError {
				return exit.With(exit.ToolError, errors.New("the tool reported an error"))
			}
			return nil
		},
	}
	o.register(cmd.Flags())
	format.Register(cmd.Flags())
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long the call may take, with the wait for its server")
	return cmd
}

// call opens a session, checks the arguments and makes the call.
func (o *sessionFlags) call(ctx context.Context, cmd *cobra.Command, name string, given []byte) (*session.Result, error) {
	s, closeSession, err := o.open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer closeSession()
	tools, _ := s.Tools()
	for i := range tools {
		if t := &tools[i]; t.Name == name {
			if err := arguments.Check(t.InputSchema, given); err != nil {
				return nil, exit.With(exit.Usage, errors.WithHint(errors.Wrapf(err, "arguments of %s", name),
					"see its schema: toolfleet tools "+string(t.Server)+" -o yaml; numbers and the like are written NAME:=JSON"))
			}
		}
	}
	r, err := s.Call(ctx, name, given, nil)
	if errors.Is(err, session.ErrUnknownTool) {
		o.warnOfMissing(cmd, s)
		if down := notRunning(s, name); down != nil {
			return nil, exit.With(exit.NotFound, down)
		}
		return nil, exit.With(exit.NotFound, meant(err, name, tools))
	}
	return r, err
}

// notRunning returns why a tool is not offered if its name begins like those of a
// server that does not run and will not by itself.
func notRunning(s *session.Session, name string) error {
	for _, n := range s.Status().Servers {
		if !strings.HasPrefix(name, string(n.ID)+"__") {
			continue
		}
		switch n.State {
		case projections.Parked, projections.Disabled, projections.Stopped, projections.AuthRequired, projections.Rejected, projections.Failed, projections.BackingOff:
			err := errors.Newf("no tool %q is offered: server %s is %s", name, n.ID, why(n.State, n.Failure))
			return errors.WithHintf(err, "see what it needs: toolfleet describe %s", n.ID)
		default:
			return nil
		}
	}
	return nil
}

// meant adds the tools that an unknown name may have meant.
func meant(err error, name string, tools []session.Tool) error {
	var names []string
	for i := range tools {
		names = append(names, tools[i].Name)
	}
	for _, n := range near.Names(name, names) {
		err = errors.WithHintf(err, "did you mean %s?", n)
	}
	return errors.WithHint(err, "list the tools: toolfleet tools")
}
