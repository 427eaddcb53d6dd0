// Package events says what can be said in a fleet: events and commands, the
// ids they name, the subjects they travel on and the bytes they are stored as.
//
// It is pure: it reads no clock, no environment and no network, and imports no
// broker. Everything else in toolfleet is built on these words.
//
// # Chains
//
// History is a set of chains. A chain is one literal NATS subject and has one
// writer at a time (see [Chain]):
//
//	tf.evt.<fleet>.server.<server>                a server's definition
//	tf.evt.<fleet>.instance.<server>.<instance>   one running copy of it
//	tf.evt.<fleet>.worker.<worker>                a host's daemon
//	tf.evt.<fleet>.fleet                          the fleet itself
//
// The position of an event is its sequence in the fleet's stream ([Seq]). The
// last event of a chain as a reader knows it is the chain's [Tip]: sequence and
// link. Every append states the tip that its decision was made on. What is known
// of a server, an instance or a worker is the fold of its chain: a pure function
// of its events, in order.
//
// Several workers may own an instance one after the other, never at once. Each
// owner has a greater [Epoch]; each start of a worker is a new [Incarnation].
//
// # Kinds
//
// A chain has events of these kinds. The body of a kind is the type of that name
// ("tools-listed" is [ToolsListed]); only "stopped" is [HasStopped], because
// [Stopped] is a state that can be wanted.
//
//	server     declared updated update-settled update-rolled-back enabled
//	           disabled withdrawn rejected restart-requested start-requested
//	           stop-requested move-requested
//	instance   assigned connecting connected tools-listed resources-listed
//	           prompts-listed degraded recovered failed restart-scheduled
//	           restarted auth-required parked stopping stopped released lost
//	worker     joined left draining cordoned uncordoned lost
//	fleet      frozen unfrozen source-failed discovered rejected led-by
//
// # Format
//
// A stored event is a CloudEvents 1.0 event in NATS binary content mode. The
// body is JSON; everything needed for routing is in headers and can be read
// without the body:
//
//	ce-specversion   1.0
//	ce-id            UUIDv7, random: the stream's duplicate window goes by it
//	ce-source        toolfleet/<fleet>/<who wrote it>
//	ce-type          dev.toolfleet.<kind>.v<version>
//	ce-subject       the chain without its prefix, such as instance.github.0
//	ce-time          RFC 3339, UTC, up to nanoseconds, no trailing zeros
//	content-type     application/json
//	traceparent      W3C trace context of the event's creation, if any
//	tracestate       likewise
//	tf-epoch         decimal; the owner's epoch, on instance chains
//	tf-attempt       decimal; the connection attempt, where there is one
//	tf-cause         id of the event or command that led to this one
//	tf-correlation   id of the request, chosen by the caller
//	tf-actor         who asked
//	tf-reason        the actor's own words
//	tf-prev          link to the previous message of the chain, hex
//
// tf-cause, tf-correlation, tf-actor and tf-reason may hold any text: '%', bytes
// that are not printable ASCII and spaces at either end are percent-encoded with
// upper-case digits. All other values are printable ASCII as they are.
//
// The link is SHA-256 over the previous message: "name:value" and LF for each of
// its headers that begin with ce- or tf-, and of content-type, traceparent and
// tracestate, in the order of their names; then its subject, LF, and its body. A
// chain's first event has no tf-prev. Other headers are the broker's.
//
// # Reading
//
// An event has one form. Headers that [Encode] would not write are refused, and
// so are bodies that are no object, have duplicate names or invalid UTF-8; member
// names are case-sensitive. What is refused stops no reader: [Read] makes it an
// [Undecodable] body, which keeps its place in the history and its link.
//
// Reading is tolerant of the future: a kind or version that this build does not
// know becomes an [Unknown] body, unknown members of a known body stay in
// [Event.Data], and unknown headers that begin with ce- or tf- in [Event.Extra],
// so that a reader can step over what it cannot read and write again what it did
// not understand.
package events
