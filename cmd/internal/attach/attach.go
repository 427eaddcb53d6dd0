// Package attach finds the NATS servers of the fleet that a command is meant
// for.
//
// The first of these that is there is taken, with its source named in errors:
//
//	--server                 the flag
//	--context                a context of the nats command line
//	TOOLFLEET_SERVER         the environment
//	TOOLFLEET_CONTEXT        likewise
//	NATS_URL                 likewise
//	NATS_CONTEXT             likewise
//	the selected context     of the nats command line
//	a running toolfleet up   of the same fleet, by its record in the state folder
//
// --creds, or TOOLFLEET_CREDS, names a file of NATS credentials for any of them,
// and --fleet, or TOOLFLEET_FLEET, the fleet.
package attach

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

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
	flags.StringVarP(&f.Server, "server", "s", "", "`URL` of the NATS servers (default: TOOLFLEET_SERVER, NATS_URL, a NATS context, or a running toolfleet up)")
	flags.StringVar(&f.Context, "context", "", "`name` of a context of the nats command line to connect with")
	flags.StringVar(&f.Creds, "creds", os.Getenv("TOOLFLEET_CREDS"), "`file` with NATS credentials")
	f.RegisterFleet(flags)
}

// RegisterFleet adds only the flag that says which fleet is meant.
func (f *Flags) RegisterFleet(flags *pflag.FlagSet) {
	flags.StringVar(&f.Fleet, "fleet", cmp.Or(os.Getenv("TOOLFLEET_FLEET"), string(events.DefaultFleet)), "`name` of the fleet")
}

// FleetID returns the fleet that is meant.
func (f *Flags) FleetID() (events.FleetID, error) {
	id, err := events.ParseFleetID(f.Fleet)
	return id, exit.With(exit.Usage, errors.Wrap(err, "--fleet"))
}

// Flag is what other commands need to be about the same fleet, such as
// " --fleet b"; nothing for the default.
func (f *Flags) Flag() string {
	if f.Fleet == string(events.DefaultFleet) {
		return ""
	}
	return " --fleet " + f.Fleet
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

// Local returns the record of the toolfleet up that the place is of, if it is of
// one of this host.
func (f *Flags) Local() (Running, bool) {
	place, err := f.Find()
	if err != nil || place.From != fromRunning {
		return Running{}, false
	}
	folder, err := StateFolder(events.FleetID(f.Fleet))
	if err != nil {
		return Running{}, false
	}
	r, err := folder.Running()
	return r, err == nil
}

// Elsewhere returns what names another place than a toolfleet up of this host, or "".
func (f *Flags) Elsewhere() string {
	place, err := f.Find()
	if err != nil || place.From == fromRunning {
		return ""
	}
	return place.From
}

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
	case p.fromEnvironment(), p.fromSelection():
	default:
		return f.running(p)
	}
	return p, nil
}

func (p *Place) fromEnvironment() bool {
	for _, v := range []struct {
		name string
		to   *string
	}{
		{"TOOLFLEET_SERVER", &p.URL}, {"TOOLFLEET_CONTEXT", &p.Context}, {"NATS_URL", &p.URL}, {"NATS_CONTEXT", &p.Context},
	} {
		if *v.to = os.Getenv(v.name); *v.to != "" {
			p.From = v.name
			return true
		}
	}
	return false
}

// fromSelection takes the context that is selected for the nats command line, if
// one is.
func (p *Place) fromSelection() bool {
	config, err := os.UserConfigDir()
	if xdg := os.Getenv("XDG_CONFIG_HOME"); xdg != "" {
		config, err = xdg, nil // as that program has it on every system
	}
	if err != nil {
		return false
	}
	name, err := os.ReadFile(filepath.Join(config, "nats", "context.txt"))
	p.Context, p.From = strings.TrimSpace(string(name)), "the selected NATS context"
	return err == nil && p.Context != ""
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
	p.URL, p.Context, p.From = r.URL, "", fromRunning
	return p, err
}
