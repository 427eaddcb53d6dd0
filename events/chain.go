package events

import (
	"strings"

	"github.com/cockroachdb/errors"
)

// ChainKind says what a chain is about.
type ChainKind uint8

// The kinds of chain.
const (
	OfServer   ChainKind = iota + 1 // a server's definition
	OfInstance                      // one running copy of it
	OfWorker                        // a host's daemon
	OfFleet                         // the fleet itself
)

var chainNames = [...]string{OfServer: "server", OfInstance: "instance", OfWorker: "worker", OfFleet: "fleet"}

// String returns "server", "instance", "worker" or "fleet", as subjects have
// them, or "none".
func (k ChainKind) String() string {
	if int(k) < len(chainNames) && k != 0 {
		return chainNames[k]
	}
	return "none"
}

// Chain names one chain of events of a fleet: a literal subject, whose events
// are linked to each other and appended one at a time. Chains are comparable;
// the zero Chain is none. The ids in a Chain are not checked when it is made,
// but when one of its events is encoded.
type Chain struct {
	kind     ChainKind
	id       string // server or worker
	instance InstanceID
}

// ServerChain is the chain of a server's definition; controllers write it.
func ServerChain(id ServerID) Chain { return Chain{kind: OfServer, id: string(id)} }

// InstanceChain is the chain of one running copy of a server; its owner writes
// it, and controllers write who the owner is.
func InstanceChain(id ServerID, n InstanceID) Chain {
	return Chain{kind: OfInstance, id: string(id), instance: n}
}

// WorkerChain is the chain of a worker; it and controllers write it.
func WorkerChain(id WorkerID) Chain { return Chain{kind: OfWorker, id: string(id)} }

// FleetChain is the chain of the fleet itself; controllers write it.
func FleetChain() Chain { return Chain{kind: OfFleet} }

// Kind says what the chain is about; 0 for the zero Chain.
func (c Chain) Kind() ChainKind { return c.kind }

// Server returns the server of a server's or instance's chain, or "".
func (c Chain) Server() ServerID {
	if c.kind == OfServer || c.kind == OfInstance {
		return ServerID(c.id)
	}
	return ""
}

// Instance returns the instance of an instance's chain, or "".
func (c Chain) Instance() InstanceID { return c.instance }

// Worker returns the worker of a worker's chain, or "".
func (c Chain) Worker() WorkerID {
	if c.kind == OfWorker {
		return WorkerID(c.id)
	}
	return ""
}

// String returns the chain without the fleet, such as "instance.github.0": the
// ce-subject of its events.
func (c Chain) String() string {
	switch c.kind {
	case OfServer, OfWorker:
		return c.kind.String() + "." + c.id
	case OfInstance:
		return "instance." + c.id + "." + string(c.instance)
	default:
		return c.kind.String()
	}
}

// Subject returns the subject of the chain's events in a fleet, such as
// tf.evt.default.instance.github.0.
func (c Chain) Subject(f FleetID) string { return EventPrefix(f) + c.String() }

// ErrInvalidSubject marks every error of [ParseChain], [ParseEventSubject] and
// [ParseCommandSubject].
var ErrInvalidSubject = errors.New("invalid subject")

// ParseChain is the inverse of [Chain.String]. Its error is marked
// [ErrInvalidSubject].
func ParseChain(s string) (Chain, error) {
	kind, rest, more := strings.Cut(s, ".")
	switch {
	case kind == "fleet" && !more:
		return FleetChain(), nil
	case kind == "server" && isID(rest):
		return ServerChain(ServerID(rest)), nil
	case kind == "worker" && isID(rest):
		return WorkerChain(WorkerID(rest)), nil
	case kind == "instance":
		server, instance, _ := strings.Cut(rest, ".")
		if isID(server) && isID(instance) {
			return InstanceChain(ServerID(server), InstanceID(instance)), nil
		}
	}
	return Chain{}, errors.Mark(errors.Newf("%s names no chain", quote(s)), ErrInvalidSubject)
}

// ParseEventSubject is the inverse of [Chain.Subject]. Its error is marked
// [ErrInvalidSubject].
func ParseEventSubject(subject string) (FleetID, Chain, error) {
	fleet, chain, err := splitEventSubject(subject)
	if err != nil {
		return "", Chain{}, err
	}
	c, err := ParseChain(chain)
	if err != nil {
		return "", Chain{}, errors.Wrapf(err, "event subject %s", quote(subject))
	}
	return fleet, c, nil
}

// splitEventSubject leaves the chain unparsed.
func splitEventSubject(subject string) (f FleetID, chain string, err error) {
	rest, ok := strings.CutPrefix(subject, eventRoot)
	fleet, chain, _ := strings.Cut(rest, ".")
	if !ok || !isID(fleet) {
		return "", "", errors.Mark(errors.Newf("%s is not an event subject", quote(subject)), ErrInvalidSubject)
	}
	return FleetID(fleet), chain, nil
}

func isID(s string) bool { return len(s) <= MaxIDLength && isToken(s) }

const (
	eventRoot   = "tf.evt."
	commandRoot = "tf.cmd."
	callRoot    = "tf.call."
	callsRoot   = "tf.calls."
	logsRoot    = "tf.logs."
)

// EventPrefix is what every event subject of the fleet begins with:
// tf.evt.<fleet>. and nothing more.
func EventPrefix(f FleetID) string { return eventRoot + string(f) + "." }

// CommandPrefix is what every command subject of the fleet begins with:
// tf.cmd.<fleet>. and nothing more.
func CommandPrefix(f FleetID) string { return commandRoot + string(f) + "." }

// Address names an instance on a worker: where a command goes.
type Address struct {
	Worker   WorkerID
	Server   ServerID
	Instance InstanceID
}

// Subject returns the subject of the commands to the address:
// tf.cmd.<fleet>.<worker>.<server>.<instance>.
func (a Address) Subject(f FleetID) string {
	return CommandPrefix(f) + string(a.Worker) + "." + string(a.Server) + "." + string(a.Instance)
}

// ParseCommandSubject is the inverse of [Address.Subject]. Its error is marked
// [ErrInvalidSubject].
func ParseCommandSubject(subject string) (FleetID, Address, error) {
	rest, ok := strings.CutPrefix(subject, commandRoot)
	t := strings.Split(rest, ".")
	if !ok || len(t) != 4 || !isID(t[0]) || !isID(t[1]) || !isID(t[2]) || !isID(t[3]) {
		return "", Address{}, errors.Mark(errors.Newf("%s is not a command subject", quote(subject)), ErrInvalidSubject)
	}
	return FleetID(t[0]), Address{WorkerID(t[1]), ServerID(t[2]), InstanceID(t[3])}, nil
}

// CallSubject is where the owner of an instance answers calls in an epoch:
// tf.call.<fleet>.<server>.<instance>.<epoch>. A new owner listens elsewhere, so
// a call can never reach an old one.
func CallSubject(f FleetID, s ServerID, n InstanceID, e Epoch) string {
	return callRoot + string(f) + "." + string(s) + "." + string(n) + "." + e.String()
}

// CallsSubject is where a worker answers what its instances are being called for,
// and cancels calls: tf.calls.<fleet>.<worker>.
func CallsSubject(f FleetID, w WorkerID) string {
	return callsRoot + string(f) + "." + string(w)
}

// LogsSubject is where a worker answers requests for the logs of the instances
// that it runs, or ran: tf.logs.<fleet>.<worker>.
func LogsSubject(f FleetID, w WorkerID) string {
	return logsRoot + string(f) + "." + string(w)
}
