package attach

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// ErrPassword marks the error of [Flags.Arguments] when a password would be
// written where everyone may read it.
var ErrPassword = errors.New("the URL has a password")

// Arguments returns the arguments and the environment with which a process of
// another program finds the same fleet: that of an agent, which need not have this
// environment. A URL with a password is refused unless it may be written.
func (f *Flags) Arguments(passwords bool) (args []string, env map[string]string, err error) {
	place, err := f.Find()
	if err != nil && !errors.Is(err, ErrNowhere) {
		return nil, nil, err
	}
	switch {
	case err != nil || place.From == fromRunning: // found by its record, now or later
		if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
			env = map[string]string{"XDG_STATE_HOME": state}
		}
	case place.Context != "":
		args = append(args, "--context", place.Context)
	default:
		if !passwords && strings.Contains(place.URL, "@") {
			return nil, nil, errors.WithHint(errors.Mark(errors.Newf("the URL of %s has a password or token", place.From), ErrPassword),
				"use --context or --creds, which keep it out of the client's file, or --with-token to have it there")
		}
		args = append(args, "--server", place.URL)
	}
	if place.Creds != "" {
		creds, err := filepath.Abs(place.Creds)
		if err != nil {
			return nil, nil, errors.Wrap(err, "--creds")
		}
		args = append(args, "--creds", creds)
	}
	if f.Fleet != string(events.DefaultFleet) {
		args = append(args, "--fleet", f.Fleet)
	}
	return args, env, nil
}
