package main

import (
	"context"
	"io"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

const (
	// askAgain lies between two questions to a worker that does not answer.
	askAgain = 2 * time.Second
	// linesWaiting bounds frames that wait to be written.
	linesWaiting = 1024
)

// logs is the command of that name with its flags.
type logs struct {
	flags    attach.Flags
	format   *show.Format
	follow   bool
	previous bool
	tail     int
	instance string
	server   events.ServerID
	fleet    events.FleetID
}

func newLogs() *cobra.Command {
	l := &logs{format: show.NewFormat(show.Text, show.JSON)}
	cmd := &cobra.Command{
		Use:   "logs SERVER",
		Short: "Show what a server writes to stderr",
		Long: "Shows what a server's last process wrote to stderr, and the log messages that it sent\n" +
			"over MCP. They are kept on the host of its worker, at most 2 MiB of each instance,\n" +
			"without the secrets that the worker gave to the server.\n\n" +
			"With -o json each line is one object: time, epoch, attempt, stream, text.",
		Example: "  toolfleet logs github --tail 20 -f\n  toolfleet logs github --previous",
		Args: func(cmd *cobra.Command, args []string) error {
			if l.follow && l.previous {
				return exit.Usagef("--follow and --previous exclude each other: what is over says nothing more")
			}
			return exit.Arguments(1, 1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			l.server = events.ServerID(args[0])
			f, err := attachTo(cmd.Context(), &l.flags)
			if err != nil {
				return err
			}
			defer f.close()
			l.fleet = f.id
			return l.run(cmd, f)
		},
	}
	l.flags.Register(cmd.Flags())
	l.format.Register(cmd.Flags())
	cmd.Flags().BoolVarP(&l.follow, "follow", "f", false, "go on with lines as they come, wherever the server runs")
	cmd.Flags().BoolVar(&l.previous, "previous", false, "show the process before the last start")
	cmd.Flags().IntVar(&l.tail, "tail", -1, "how many of the last lines to show; -1 is all")
	cmd.Flags().StringVar(&l.instance, "instance", "", "`ordinal` of the instance (default: the lowest one that has an owner)")
	return cmd
}

func (l *logs) run(cmd *cobra.Command, f *fleet) error {
	r, err := f.views(cmd)
	if err != nil {
		return err
	}
	bus, err := jetlog.Visit(f.nc, f.id)
	if err != nil {
		return err
	}
	if l.follow {
		f.sayWhenLost(cmd)
		return l.runOn(cmd, r, bus)
	}
	n, err := l.target(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), lookWithin)
	defer cancel()
	end, err := l.ask(ctx, bus, n, &writer{out: cmd.OutOrStdout(), format: l.format})
	return l.explain(n, end, err)
}

// target returns the instance whose log is asked for. A worker has, or had, it.
func (l *logs) target(r *kvview.Reader) (*projections.InstanceStatus, error) {
	s, ok := r.Status(l.server)
	if !ok {
		var all []string
		for _, e := range r.Servers() {
			all = append(all, string(e.Value.ID))
		}
		return nil, unknown("server", string(l.server), all)
	}
	var n *projections.InstanceStatus
	for i := range s.Instances {
		switch x := &s.Instances[i]; {
		case l.instance != "" && string(x.Instance) != l.instance, x.Worker == "":
		case n == nil, !n.State.Owned() && x.State.Owned():
			n = x
		}
	}
	if n != nil {
		return n, nil
	}
	what := "server " + string(l.server)
	if l.instance != "" {
		what = "instance " + l.instance + " of " + what
	}
	err := errors.Newf("%s has no log: no worker has run it, it is %s", what, why(s.State, s.Failure))
	return nil, exit.With(exit.NotFound, errors.WithHintf(err, "see what it waits for: toolfleet describe %s", l.server))
}

// why returns a state with its reason.
func why(s projections.State, f *projections.Fault) string {
	if f == nil {
		return string(s)
	}
	return string(s) + ": " + f.Failure.Error()
}

// writer writes lines of one worker.
type writer struct {
	out    io.Writer
	format *show.Format
	// last is the time of the last line; lines up to seen were written before the
	// worker was asked again.
	last, seen time.Time
}

func (w *writer) write(lines []callwire.LogLine) error {
	for i := range lines {
		if !w.seen.IsZero() && !lines[i].Time.After(w.seen) {
			continue
		}
		w.last = lines[i].Time
		if err := show.LogLine(w.out, w.format, &lines[i]); err != nil {
			return err
		}
	}
	return nil
}

// errOutput marks errors of the standard output.
var errOutput = errors.New("the output cannot be written")

// ask asks the instance's worker, and writes lines until there are no more.
func (l *logs) ask(ctx context.Context, bus *jetlog.Guest, n *projections.InstanceStatus, w *writer) (callwire.LogsEnd, error) {
	arguments, err := json.Marshal(callwire.LogsRequest{
		Server: l.server, Instance: n.Instance, Tail: l.tail, Previous: l.previous, Follow: l.follow,
	})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A call must not wait for whoever reads its output.
	lines, written := make(chan []callwire.LogLine, linesWaiting), make(chan error, 1)
	go func() {
		var failed error
		for some := range lines {
			if failed == nil {
				if failed = w.write(some); failed != nil {
					cancel()
				}
			}
		}
		written <- failed
	}()
	data, err := bus.Call(ctx, events.LogsSubject(l.fleet, n.Worker), &callwire.Request{Tool: callwire.LogsTool, Arguments: arguments},
		func(f *callwire.Frame) {
			if some, _ := callwire.DecodeLogLines(f.Data); len(some) > 0 { // what cannot be read is left out
				lines <- some
			}
		})
	close(lines)
	if failed := <-written; failed != nil {
		return "", errors.Mark(failed, errOutput)
	}
	var result callwire.LogsResult
	if err == nil {
		err = errors.Wrap(json.Unmarshal(data, &result), "read the worker's answer")
	}
	return result.End, err
}

// explain returns the error of a log that was not shown.
func (l *logs) explain(n *projections.InstanceStatus, end callwire.LogsEnd, err error) error {
	var e *callwire.Error
	switch {
	case errors.As(err, &e) && e.Outcome == callwire.NotExecuted:
		err = errors.Newf("worker %s, which has the log of server %s, does not answer; the server is %s", n.Worker, l.server, why(n.State, n.Failure))
		return errors.WithHintf(err, "see how the worker is: toolfleet describe %s", n.Worker)
	case err != nil:
		return errors.Wrapf(err, "read the log of server %s from worker %s", l.server, n.Worker)
	case end == callwire.LogsNone && l.previous:
		return exit.With(exit.NotFound, errors.Newf("worker %s has no log of a process of server %s before the last one", n.Worker, l.server))
	case end == callwire.LogsNone:
		return exit.With(exit.NotFound, errors.Newf("worker %s has no log of server %s, which is %s", n.Worker, l.server, why(n.State, n.Failure)))
	case end == callwire.LogsOff:
		return exit.With(exit.NotFound, errors.Newf("worker %s keeps no logs", n.Worker))
	default:
		return nil
	}
}

// runOn writes lines until the command is interrupted. It goes where the
// instance goes.
func (l *logs) runOn(cmd *cobra.Command, r *kvview.Reader, bus *jetlog.Guest) error {
	defer follow(cmd.Context(), r)()
	changed := r.Changes()
	defer r.Forget(changed)
	var w *writer
	var last events.WorkerID
	said := false
	for cmd.Context().Err() == nil {
		n, err := l.target(r)
		if err != nil {
			return err
		}
		if n.Worker != last {
			if last != "" {
				cmd.PrintErrf("instance %s of server %s is on worker %s now\n", n.Instance, l.server, n.Worker)
				l.tail = -1
			}
			last, said = n.Worker, false
			w = &writer{out: cmd.OutOrStdout(), format: l.format} // times are another host's
		}
		w.seen = w.last
		ctx, stop := l.whileOn(cmd.Context(), r, changed, n.Worker)
		end, err := l.ask(ctx, bus, n, w)
		stop()
		switch err = l.explain(n, end, err); {
		case cmd.Context().Err() != nil:
			return nil
		case errors.Is(err, errOutput), end == callwire.LogsOff:
			return err
		case l.moved(r, n.Worker):
			continue
		case err == nil:
			err = errors.Newf("worker %s stopped", n.Worker)
		}
		if l.tail = -1; !said {
			cmd.PrintErrf("%v; waiting\n", err)
			said = true
		}
		select {
		case <-changed:
		case <-time.After(askAgain):
		case <-cmd.Context().Done():
		}
	}
	return nil
}

// moved says whether the instance has another worker now.
func (l *logs) moved(r *kvview.Reader, w events.WorkerID) bool {
	n, err := l.target(r)
	return err == nil && n.Worker != w
}

// whileOn returns a context that ends when the instance has another worker, and
// what ends it.
func (l *logs) whileOn(ctx context.Context, r *kvview.Reader, changed <-chan struct{}, w events.WorkerID) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !l.moved(r, w) {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	return ctx, func() {
		cancel()
		<-done
	}
}
