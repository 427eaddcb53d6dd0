package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"sync"
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
	"github.com/toolfleet/toolfleet/projections/kvview"
)

func newCalls() *cobra.Command {
	var flags attach.Flags
	format := show.NewFormat()
	cmd := &cobra.Command{
		Use:   "calls [SERVER...]",
		Short: "Show the calls that are in flight",
		Long: "Shows the calls that workers are at, the longest first: of all servers, or of some.\n" +
			"The exit status is 1 if a worker did not answer, so that calls may be missing.",
		RunE: func(cmd *cobra.Command, servers []string) error {
			f, err := attachTo(cmd.Context(), &flags)
			if err != nil {
				return err
			}
			defer f.close()
			r, err := f.views(cmd)
			if err != nil {
				return err
			}
			known := among(r, everyone)
			for _, id := range servers {
				if !slices.Contains(known, id) {
					return unknown("server", id, known)
				}
			}
			calls, silent := f.callsOf(cmd, r)
			if len(servers) > 0 {
				calls = slices.DeleteFunc(calls, func(c show.Call) bool { return !slices.Contains(servers, string(c.Server)) })
			}
			if err := writeList(cmd, show.Calls, format, calls); err != nil {
				return err
			}
			return toldOf(cmd, silent)
		},
	}
	flags.Register(cmd.Flags())
	format.Register(cmd.Flags())
	return cmd
}

func newCancel() *cobra.Command {
	var flags attach.Flags
	cmd := &cobra.Command{
		Use:   "cancel CALL",
		Short: "Cancel a call that is in flight",
		Long: "Cancels a call that is in flight, as if its caller did, who is told of it. The server\n" +
			"may have executed a part of it. The exit status is 3 if there is no such call, or it\n" +
			"has ended.",
		Args: exit.Arguments(1, 1),
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
			return f.cancelCall(cmd, r, args[0])
		},
	}
	flags.Register(cmd.Flags())
	return cmd
}

// callsOf asks all workers for what they are at. Silent are those that did not
// answer, with the reason.
func (f *fleet) callsOf(cmd *cobra.Command, r *kvview.Reader) (calls []show.Call, silent map[events.WorkerID]error) {
	answers, silent := askWorkers[callwire.CallsResult](cmd.Context(), f, presentWorkers(r), callwire.ListCalls, struct{}{})
	now := time.Now()
	for w, a := range answers {
		for i := range a.Calls {
			calls = append(calls, show.NewCall(w, &a.Calls[i], now))
		}
		if a.More > 0 {
			cmd.PrintErrf("worker %s is at %d more\n", w, a.More)
		}
	}
	slices.SortFunc(calls, func(a, b show.Call) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Call, b.Call), cmp.Compare(a.Server, b.Server))
	})
	return calls, silent
}

func (f *fleet) cancelCall(cmd *cobra.Command, r *kvview.Reader, id string) error {
	answers, silent := askWorkers[callwire.CancelResult](cmd.Context(), f, presentWorkers(r), callwire.CancelCall, callwire.CancelRequest{Call: id})
	for w, a := range answers {
		if a.Cancelled {
			fmt.Fprintf(cmd.OutOrStdout(), "%s is cancelled, at worker %s\n", show.Clean(id), w)
			return nil
		}
	}
	if err := toldOf(cmd, silent); err != nil {
		return err
	}
	return exit.With(exit.NotFound, errors.WithHint(errors.Newf("no call %q is in flight: it has ended, or never was", id),
		"toolfleet calls shows those that are"))
}

// toldOf names the workers that did not answer, and returns the status for that.
func toldOf(cmd *cobra.Command, silent map[events.WorkerID]error) error {
	if len(silent) == 0 {
		return nil
	}
	var lines []string
	for w, err := range silent {
		lines = append(lines, fmt.Sprintf("worker %s does not answer: %v", w, err))
	}
	slices.Sort(lines)
	say(cmd, lines...)
	return exit.Told(exit.Failed)
}

// presentWorkers returns the workers that are there.
func presentWorkers(r *kvview.Reader) (ids []events.WorkerID) {
	for _, e := range r.Workers() {
		if e.Value.Present() {
			ids = append(ids, e.Value.ID)
		}
	}
	return ids
}

// askWithinEach bounds what one worker is waited for.
const askWithinEach = 5 * time.Second

// askWorkers asks workers about their calls, all at once.
func askWorkers[T any](ctx context.Context, f *fleet, workers []events.WorkerID, tool string, about any) (answers map[events.WorkerID]*T, silent map[events.WorkerID]error) {
	answers, silent = make(map[events.WorkerID]*T), make(map[events.WorkerID]error)
	ctx, cancel := context.WithTimeout(ctx, askWithinEach)
	defer cancel()
	var (
		mu  sync.Mutex // guards both maps
		all sync.WaitGroup
	)
	for _, w := range workers {
		all.Go(func() {
			a, err := askWorker[T](ctx, f, w, tool, about)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent[w] = err
			} else {
				answers[w] = a
			}
		})
	}
	all.Wait()
	return answers, silent
}

func askWorker[T any](ctx context.Context, f *fleet, w events.WorkerID, tool string, about any) (*T, error) {
	bus, err := jetlog.Visit(f.nc, f.id)
	if err != nil {
		return nil, err
	}
	arguments, err := json.Marshal(about)
	if err != nil {
		return nil, errors.Wrap(err, "ask about calls") // unreachable: it is one of two structs
	}
	data, err := bus.Call(ctx, events.CallsSubject(f.id, w), &callwire.Request{Tool: tool, Arguments: arguments, Actor: whoami()}, nil)
	if err != nil {
		return nil, err
	}
	var a T
	return &a, errors.Wrap(json.Unmarshal(data, &a), "read the worker's answer")
}

// whoami returns user and host, as far as they can be found out.
func whoami() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil && h != "" {
		host = h
	}
	return strings.Join([]string{name, host}, "@")
}
