package events

import (
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"
)

// Ids of fleets, servers, instances and workers are subject tokens: 1 to
// [MaxIDLength] ASCII letters, digits, '-' and '_'; case matters. They appear in
// subjects, bucket keys and file names, so anything else could change what a
// subject means. A value of these types need not be valid: see the Parse
// functions.
type (
	// FleetID names a fleet: the unit of isolation, with streams, buckets and
	// subjects of its own. For its form see [ParseFleetID].
	FleetID string
	// ServerID names an MCP server definition within a fleet.
	ServerID string
	// InstanceID names one running copy of a server: an ordinal ("0", "1", …),
	// or the worker's id for a server placed on each worker.
	InstanceID string
	// WorkerID names a host's daemon.
	WorkerID string
	// Incarnation is one life of a worker or controller: new and random at every
	// start. Incarnations are only compared for equality.
	Incarnation string
	// EventID is a UUIDv7 in its usual text form, in lower case.
	EventID string
	// RequestID is any text that a caller chooses; a repeat of it is answered
	// with what the first one caused.
	RequestID string
)

// DefaultFleet is the fleet used where none is named.
const DefaultFleet FleetID = "default"

// MaxIDLength bounds every id, in bytes: several ids make up one subject and
// one key, and NATS refuses very long ones.
const MaxIDLength = 128

// ErrInvalidID marks every error of the Parse functions for ids.
var ErrInvalidID = errors.New("invalid id")

// ParseFleetID returns s as a FleetID: 1 to [MaxIDLength] ASCII letters, digits,
// '-' and '_', or else an error marked [ErrInvalidID].
func ParseFleetID(s string) (FleetID, error) { return parseID[FleetID]("fleet", s) }

// ParseServerID returns s as a ServerID: 1 to [MaxIDLength] ASCII letters,
// digits, '-' and '_', or else an error marked [ErrInvalidID].
func ParseServerID(s string) (ServerID, error) { return parseID[ServerID]("server", s) }

// ParseInstanceID returns s as an InstanceID: 1 to [MaxIDLength] ASCII letters,
// digits, '-' and '_', or else an error marked [ErrInvalidID].
func ParseInstanceID(s string) (InstanceID, error) { return parseID[InstanceID]("instance", s) }

// ParseWorkerID returns s as a WorkerID: 1 to [MaxIDLength] ASCII letters,
// digits, '-' and '_', or else an error marked [ErrInvalidID].
func ParseWorkerID(s string) (WorkerID, error) { return parseID[WorkerID]("worker", s) }

func parseID[T ~string](what, s string) (T, error) {
	switch {
	case s == "":
		return "", errors.Mark(errors.Newf("%s id is empty: use ASCII letters, digits, '-' and '_'", what), ErrInvalidID)
	case len(s) > MaxIDLength:
		return "", errors.Mark(errors.Newf("%s id is %d bytes long: at most %d are allowed", what, len(s), MaxIDLength), ErrInvalidID)
	case !isToken(s):
		return "", errors.Mark(errors.Newf("%s id %q: only ASCII letters, digits, '-' and '_' are allowed", what, s), ErrInvalidID)
	}
	return T(s), nil
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return s != ""
}

// Seq is a position in the fleet's event stream. The first event has 1; zero
// stands before it.
type Seq uint64

// Epoch counts the owners of an instance, from 1. What is said under an old
// epoch is ignored.
type Epoch uint64

// String returns the position in decimal.
func (s Seq) String() string { return strconv.FormatUint(uint64(s), 10) }

// String returns the epoch in decimal.
func (e Epoch) String() string { return strconv.FormatUint(uint64(e), 10) }

// Scope says who sees a server: the whole fleet, or the sessions of one project.
// The zero value is [FleetScope].
type Scope string

// FleetScope is the scope of servers that every session sees.
const FleetScope Scope = "fleet"

const projectPrefix = "project:"

// ProjectScope returns the scope of the project with that label, which may be
// any text but "".
func ProjectScope(label string) Scope { return Scope(projectPrefix + label) }

// ParseScope returns [FleetScope] for "" and "fleet", and the scope of a project
// for "project:<label>". Everything else is an error.
func ParseScope(s string) (Scope, error) {
	if s == "" || s == string(FleetScope) {
		return FleetScope, nil
	}
	if label, ok := strings.CutPrefix(s, projectPrefix); ok && label != "" {
		return Scope(s), nil
	}
	return "", errors.Newf("scope %q: use %q or \"project:<label>\"", s, FleetScope)
}

// Project returns the label of a project scope, or false for the fleet's.
func (s Scope) Project() (label string, ok bool) {
	return strings.CutPrefix(string(s), projectPrefix)
}
