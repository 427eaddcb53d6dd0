package main

import (
	"context"
	"net/http"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

func newAlive() *cobra.Command {
	var flags attach.Flags
	cmd := &cobra.Command{
		Use:   "alive worker|controller ID, or alive URL",
		Short: "Tell a container's health check whether a part is alive",
		Long: "Exits with 0 if the worker or controller of that id is alive: its lease, which it\n" +
			"renews every 4 s, has not ended. With a URL, if that is answered with a status below\n" +
			"400. Says nothing then, and otherwise what is wrong.\n\n" +
			"It is meant for the health checks of containers that hold no other program.",
		Args: exit.Arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), lookWithin)
			defer cancel()
			switch {
			case len(args) == 1 && strings.Contains(args[0], "://"):
				return answers(ctx, args[0])
			case len(args) == 2 && (args[0] == "worker" || args[0] == "controller"):
				return present(ctx, &flags, args[0], args[1])
			default:
				return exit.Usagef("usage: toolfleet alive worker|controller ID, or toolfleet alive URL")
			}
		},
	}
	flags.Register(cmd.Flags())
	return cmd
}

// answers asks a URL.
func answers(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	response, err := new(http.Client).Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		return errors.Newf("%s answers %s", url, response.Status)
	}
	return nil
}

// present looks for the lease of a worker or controller.
func present(ctx context.Context, flags *attach.Flags, role, id string) error {
	if _, err := events.ParseWorkerID(id); err != nil {
		return exit.With(exit.Usage, err)
	}
	f, err := attachTo(ctx, flags)
	if err != nil {
		return err
	}
	defer f.close()
	leases, err := f.js.KeyValue(ctx, jetlog.StreamName(f.id, "presence"))
	if err != nil {
		return errors.Wrap(err, "find the leases")
	}
	_, err = leases.Get(ctx, role+"."+id)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return exit.With(exit.NotFound, errors.Newf("%s %s is not there: it has no lease", role, id))
	}
	return errors.Wrapf(err, "look for the lease of %s %s", role, id)
}
