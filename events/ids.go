package events

import (
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"
)

// Ids are subject tokens: ASCII letters, digits, '-' and '_'. They appear in
// subjects, bucket keys and file names, so anything else could change what a
// subject means.
type (
	// FleetID names a fleet: the unit of isolation, with streams, buckets and
	// subjects of its own.
	FleetID string
	// ServerID names an MCP server definition within a fleet.
	ServerID string
	// InstanceID names one running copy of a server: an ordinal ("0", "1", …),
	// or the worker's id for a server placed on each worker.
	InstanceID string
	// WorkerID names a host's daemon.
	WorkerID string
	// Incarnation is one life of a worker or controller: new at every start.
	Incarnation string
	// EventID is a UUIDv7.
	EventID string
	// RequestID is chosen by a caller; a repeat of it is answered with what the
	// first one caused.
	RequestID string
)

// DefaultFleet is the fleet used where none is named.
const DefaultFleet FleetID = "default"

// MaxIDLength bounds every id, in bytes: several ids make up one subject and
// one key, and NATS refuses very long ones.
const MaxIDLength = 128

// ErrInvalidID marks every error of the Parse functions for ids.
var ErrInvalidID = errors.New("invalid id")

// ParseFleetID returns s as a FleetID, or an error marked [ErrInvalidID].
func ParseFleetID(s string) (FleetID, error) { return parseID[FleetID]("fleet", s) }

// ParseServerID returns s as a ServerID, or an error marked [ErrInvalidID].
func ParseServerID(s string) (ServerID, error) { return parseID[ServerID]("server", s) }

// ParseInstanceID returns s as an InstanceID, or an error marked [ErrInvalidID].
func ParseInstanceID(s string) (InstanceID, error) { return parseID[InstanceID]("instance", s) }

// ParseWorkerID returns s as a WorkerID, or an error marked [ErrInvalidID].
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

// Epoch counts the owners of an instance. What is said under an old epoch is
// ignored.
type Epoch uint64

func (s Seq) String() string   { return strconv.FormatUint(uint64(s), 10) }
func (e Epoch) String() string { return strconv.FormatUint(uint64(e), 10) }

// Scope says who sees a server: the whole fleet, or the sessions of one project.
// The zero value is [FleetScope].
type Scope string

// FleetScope is the scope of servers that every session sees.
const FleetScope Scope = "fleet"

const projectPrefix = "project:"

// ProjectScope returns the scope of the project with that label.
func ProjectScope(label string) Scope { return Scope(projectPrefix + label) }

// ParseScope accepts "", "fleet" and "project:<label>".
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
