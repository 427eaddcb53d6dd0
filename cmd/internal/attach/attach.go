// Package attach finds the NATS servers of the fleet that a command is meant
// for.
//
// The first of these that is there is taken, with its source named in errors:
//
//	--server                 the flag
//	--context                a context of the nats command line
//	TOOLFLEET_SERVER         the environment
//	NATS_URL                 likewise
//	a running toolfleet up   of the same fleet, by its record in the state folder
//
// --creds names a file of NATS credentials for any of them.
package attach

import (
	"os"

	"github.com/cockroachdb/errors"
	"github.com/spf13/pflag"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/events"
)

// Flags are the flags that say which fleet is meant, as they were given.
type Flags struct {
	Server  string
	Context string
	Creds   string
	Fleet   string
}

// Register adds the flags to a command's.
func (f *Flags) Register(flags *pflag.FlagSet) {
	flags.StringVarP(&f.Server, "server", "s", "", "URL of the NATS servers (default: TOOLFLEET_SERVER, NATS_URL, or a running toolfleet up)")
	flags.StringVar(&f.Context, "context", "", "context of the nats command line to connect with")
	flags.StringVar(&f.Creds, "creds", "", "file with NATS credentials")
	flags.StringVar(&f.Fleet, "fleet", string(events.DefaultFleet), "name of the fleet")
}

// FleetID returns the fleet that is meant.
func (f *Flags) FleetID() (events.FleetID, error) {
	id, err := events.ParseFleetID(f.Fleet)
	return id, exit.With(exit.Usage, errors.Wrap(err, "--fleet"))
}

// Place is where a fleet's NATS servers are.
type Place struct {
	// URL of the servers; empty when Context says it.
	URL string
	// Context of the nats command line.
	Context string
	// Creds is a file of NATS credentials, or empty.
	Creds string
	// From says what named the place, such as "NATS_URL".
	From string
}

// fromRunning is the source of a place found in a running toolfleet up.
const fromRunning = "the running toolfleet up"

// ErrNowhere marks the error of [Flags.Find] when nothing names a place.
var ErrNowhere = errors.New("no fleet to connect to")

// Find returns the place that the flags and the environment name.
func (f *Flags) Find() (Place, error) {
	p := Place{Creds: f.Creds}
	switch {
	case f.Server != "" && f.Context != "":
		return p, exit.Usagef("--server and --context are both given: use one")
	case f.Server != "":
		p.URL, p.From = f.Server, "--server"
	case f.Context != "":
		p.Context, p.From = f.Context, "--context"
	default:
		for _, name := range []string{"TOOLFLEET_SERVER", "NATS_URL"} {
			if p.URL = os.Getenv(name); p.URL != "" {
				p.From = name
				return p, nil
			}
		}
		return f.running(p)
	}
	return p, nil
}

func (f *Flags) running(p Place) (Place, error) {
	fleet, err := f.FleetID()
	if err != nil {
		return p, err
	}
	folder, err := StateFolder(fleet)
	if err != nil {
		return p, err
	}
	r, err := folder.Running()
	if errors.Is(err, os.ErrNotExist) {
		return p, errors.WithHint(errors.Mark(
			errors.Newf("no fleet to connect to: no toolfleet up is running for fleet %s", fleet), ErrNowhere),
			"start one with: toolfleet up --example, or name your NATS servers with --server")
	}
	p.URL, p.From = r.URL, fromRunning
	return p, err
}
