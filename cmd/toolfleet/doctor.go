package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/doctor"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/controller"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

func newDoctor() *cobra.Command {
	var flags attach.Flags
	format := show.NewFormat(show.Text, show.JSON, show.YAML)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with the fleet",
		Long:  "Looks for what is wrong with the fleet and says what helps. The exit status is 1 if\nsomething fails; warnings are about what may be meant so.",
		Args:  exit.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks := examine(cmd.Context(), &flags)
			if err := printChecks(cmd, format, checks); err != nil {
				return err
			}
			if doctor.Failed(checks) {
				return exit.Told(exit.Failed)
			}
			return nil
		},
	}
	flags.Register(cmd.Flags())
	format.Register(cmd.Flags())
	return cmd
}

// examination is a look at a fleet.
type examination struct {
	*fleet
	flags  *attach.Flags
	checks []doctor.Check

	streams []doctor.Stream
	// off is by how much this host's clock is ahead of the server's; known says that
	// the server told.
	off   time.Duration
	known bool

	mu     sync.Mutex // guards what follows
	denied []string
}

// examine looks at one thing after the other, as far as each needs the one
// before.
func examine(ctx context.Context, flags *attach.Flags) []doctor.Check {
	f, err := attachTo(ctx, flags)
	if err != nil {
		return []doctor.Check{doctor.Error("NATS", err)}
	}
	defer f.close()
	x := &examination{fleet: f, flags: flags}
	x.noteDenials()
	began := time.Now()
	if err := f.nc.FlushTimeout(lookWithin); err != nil {
		return []doctor.Check{doctor.Error("NATS", err)}
	}
	x.add(doctor.NATS(f.address(), f.nc.ConnectedServerVersion(), time.Since(began)),
		doctor.Check{Name: "JetStream", Verdict: doctor.OK, Message: fmt.Sprintf("on, and has fleet %s", f.id)})
	x.broker(ctx)
	log, err := f.log(ctx)
	if err != nil {
		x.add(doctor.Streams(nil, err)...)
		return x.checks
	}
	x.add(doctor.Streams(log.Deviations(), nil)...)
	x.history(ctx, log)
	x.add(doctor.Permissions(x.streams, x.refused()))
	return x.checks
}

func (x *examination) add(checks ...doctor.Check) { x.checks = append(x.checks, checks...) }

// history looks at the log, and at what is folded from it.
func (x *examination) history(ctx context.Context, log *jetlog.Log) {
	head, err := log.Head(ctx)
	if err != nil {
		x.add(doctor.Error("history", err))
		return
	}
	record, _ := x.flags.Local()
	answered := x.controllers(ctx)
	x.add(doctor.History(head), doctor.Durability(record.Durability, x.sync(ctx), x.replicas()), doctor.Controllers(answered))
	r, err := kvview.Open(ctx, x.nc, x.id, nil)
	if err != nil {
		x.add(doctor.Error("views", err))
		return
	}
	x.add(doctor.Views(r.AsOf(), head.Seq, time.Now()))
	x.add(doctor.Workers(show.ReadWorkers(r))...)
	x.leases(ctx, r, answered)
	x.identities(ctx, log, r)
	x.clocks(ctx, r)
	x.lists(ctx, log, head.Seq, r)
	x.add(doctor.Servers(show.ReadServers(r)))
}

// answersWithin is how long the answers of controllers are waited for.
const answersWithin = 500 * time.Millisecond

// controllers counts the controllers of the fleet that answer.
func (f *fleet) controllers(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	subject, err := micro.ControlSubject(micro.PingVerb, controller.ServiceName, "")
	if err != nil {
		return 0 // unreachable: the name is a good one
	}
	inbox := nats.NewInbox()
	sub, err := f.nc.SubscribeSync(inbox)
	if err != nil || f.nc.PublishRequest(subject, inbox, nil) != nil {
		return 0
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection is closed soon
	answered := 0
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return answered
		}
		var ping micro.Ping
		if json.Unmarshal(m.Data, &ping) == nil && ping.Metadata["fleet"] == string(f.id) {
			answered++
		}
	}
}

func printChecks(cmd *cobra.Command, format *show.Format, checks []doctor.Check) error {
	if format.Data() {
		return format.Write(cmd.OutOrStdout(), checks)
	}
	out := show.Terminal(cmd.OutOrStdout())
	for _, c := range checks {
		if _, err := fmt.Fprintf(out, "%-5s%-12s  %s\n", c.Verdict, c.Name, c.Message); err != nil {
			return err
		}
		if c.WayOut != "" {
			if _, err := fmt.Fprintf(out, "%19s%s\n", "", c.WayOut); err != nil {
				return err
			}
		}
	}
	return nil
}
