package attach

import (
	"context"
	"log/slog"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// reachWithin bounds the attempt to connect: people wait for it.
const reachWithin = 10 * time.Second

// Connect connects to the place that the flags name. The name is what the
// server shows the connection as.
func (f *Flags) Connect(ctx context.Context, name string, log *slog.Logger) (*nats.Conn, error) {
	place, err := f.Find()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	nc, err := jetlog.Connect(ctx, &jetlog.ConnectOptions{
		URL: place.URL, Context: place.Context, Creds: place.Creds, Name: name, Logger: log,
		Env: func(string) (string, bool) { return "", false }, // Find has read the environment
	})
	if err != nil && place.From == fromRunning {
		return nil, errors.WithHint(errors.Wrapf(err, "reach %s", fromRunning),
			"it may have been killed: start it again with toolfleet up")
	}
	err = errors.Wrapf(err, "by %s", place.From)
	if folder, e := StateFolder(events.FleetID(f.Fleet)); err != nil && e == nil {
		if _, e := folder.Running(); e == nil {
			err = errors.WithHintf(err, "a toolfleet up runs on this host: without %s it is used", place.From)
		}
	}
	return nc, err
}
