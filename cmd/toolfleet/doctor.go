package main

import (
	"context"
	"fmt"
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

// examine looks at one thing after the other, as far as each needs the one
// before.
func examine(ctx context.Context, flags *attach.Flags) []doctor.Check {
	f, err := attachTo(ctx, flags)
	if err != nil {
		return []doctor.Check{doctor.Error("NATS", err)}
	}
	defer f.close()
	began := time.Now()
	if err := f.nc.FlushTimeout(lookWithin); err != nil {
		return []doctor.Check{doctor.Error("NATS", err)}
	}
	checks := []doctor.Check{
		{Name: "NATS", Verdict: doctor.OK, Message: fmt.Sprintf("%s, version %s, answers in %v",
			f.address(), f.nc.ConnectedServerVersion(), time.Since(began).Round(time.Microsecond))},
		{Name: "JetStream", Verdict: doctor.OK, Message: fmt.Sprintf("on, and has fleet %s", f.id)},
	}
	log, err := f.log(ctx)
	if err != nil {
		return append(checks, doctor.Streams(nil, err)...)
	}
	checks = append(checks, doctor.Streams(log.Deviations(), nil)...)
	return append(checks, f.examineLog(ctx, log, flags)...)
}

func (f *fleet) examineLog(ctx context.Context, log *jetlog.Log, flags *attach.Flags) []doctor.Check {
	head, err := log.Head(ctx)
	if err != nil {
		return []doctor.Check{doctor.Error("history", err)}
	}
	replicas := 1
	if s, err := f.js.Stream(ctx, jetlog.StreamName(f.id, "events")); err == nil {
		replicas = s.CachedInfo().Config.Replicas
	}
	record, _ := flags.Local()
	checks := []doctor.Check{
		doctor.History(head), doctor.Durability(record.Durability, replicas), doctor.Controllers(f.controllers(ctx)),
	}
	r, err := kvview.Open(ctx, f.nc, f.id, nil)
	if err != nil {
		return append(checks, doctor.Error("views", err))
	}
	checks = append(checks, doctor.Views(r.AsOf(), head.Seq, time.Now()))
	checks = append(checks, doctor.Workers(show.ReadWorkers(r))...)
	return append(checks, doctor.Servers(show.ReadServers(r)))
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
