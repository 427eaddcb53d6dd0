// Package parts makes the parts that the programs run, with what each stands
// on: connections, leases, folders, secrets.
//
// A host's folder, <data>, holds
//
//	controller/   the state folder of its controller
//	worker/       the state folder of its worker
//	identity      the key to the fleet's secrets, in the format of age
//	nats/         the store of an embedded server
//	nats-token    what clients of that must present
//	nats-address  where that listened last
//	http-token    what clients over HTTP must present
package parts

import (
	"log/slog"
	"os"
	"strings"

	"github.com/google/uuid"

	"github.com/toolfleet/toolfleet/events"
)

// Host is the process that the parts run in.
type Host struct {
	// ID of the worker or controller: a subject token.
	ID string
	// Data is the host's folder.
	Data string
	// Logger of what is not an event; needed.
	Logger *slog.Logger
}

// DefaultID returns the host's name as an id: what is not legal in one becomes
// '-'.
func DefaultID() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "host"
	}
	id := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, name)
	return id[:min(len(id), events.MaxIDLength)]
}

func newIncarnation() events.Incarnation {
	return events.Incarnation(uuid.NewString())
}
