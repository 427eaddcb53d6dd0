package otel

import "go.opentelemetry.io/otel/attribute"

// The attributes of all spans, measurements and records of toolfleet. Those of
// MCP and of generative AI are of conventions still in development, which the Go
// packages of semantic conventions had for a while and have no longer.
const (
	// ServerName is the id of a server, [Instance] that of its running copy.
	ServerName attribute.Key = "toolfleet.server.name"
	Instance   attribute.Key = "toolfleet.instance"
	// Generation is the position of the desired state that is obeyed.
	Generation attribute.Key = "toolfleet.server.generation"
	// ConnectionID names one attempt to connect, and what came of it, as
	// <server>/<instance>/<epoch>.<attempt>: every event of it tells the same.
	ConnectionID      attribute.Key = "toolfleet.connection.id"
	ConnectionAttempt attribute.Key = "toolfleet.connection.attempt"
	ConnectionUptime  attribute.Key = "toolfleet.connection.uptime"
	WorkerID          attribute.Key = "toolfleet.worker.id"
	ControllerID      attribute.Key = "toolfleet.controller.id"
	EventID           attribute.Key = "toolfleet.event.id"
	EventType         attribute.Key = "toolfleet.event.type"
	EventSeq          attribute.Key = "toolfleet.event.seq"
	// CommandID is the id of the request that led to it.
	CommandID     attribute.Key = "toolfleet.command.id"
	LinkKind      attribute.Key = "toolfleet.link.kind"
	Outcome       attribute.Key = "toolfleet.outcome"
	State         attribute.Key = "toolfleet.state"
	RestartReason attribute.Key = "toolfleet.restart.reason"
	BackoffDelay  attribute.Key = "toolfleet.backoff.delay"
	Projection    attribute.Key = "toolfleet.projection"
	Replay        attribute.Key = "toolfleet.replay"
	Replayed      attribute.Key = "toolfleet.events.replayed"
	FirstSeq      attribute.Key = "toolfleet.events.first"
	LastSeq       attribute.Key = "toolfleet.events.last"
	Differences   attribute.Key = "toolfleet.differences"

	MCPMethod       attribute.Key = "mcp.method.name"
	MCPProtocol     attribute.Key = "mcp.protocol.version"
	MCPResource     attribute.Key = "mcp.resource.uri"
	GenAIOperation  attribute.Key = "gen_ai.operation.name"
	GenAITool       attribute.Key = "gen_ai.tool.name"
	GenAIPrompt     attribute.Key = "gen_ai.prompt.name"
	ErrorType       attribute.Key = "error.type"
	RPCStatus       attribute.Key = "rpc.response.status_code"
	Transport       attribute.Key = "network.transport"
	NetworkProtocol attribute.Key = "network.protocol.name"
	ProcessPID      attribute.Key = "process.pid"
	ProcessExit     attribute.Key = "process.exit.code"

	MessagingSystem       attribute.Key = "messaging.system"
	MessagingOperation    attribute.Key = "messaging.operation.name"
	MessagingType         attribute.Key = "messaging.operation.type"
	MessagingTemplate     attribute.Key = "messaging.destination.template"
	MessagingMessage      attribute.Key = "messaging.message.id"
	MessagingConversation attribute.Key = "messaging.message.conversation_id"
	messagingSystemOfNATS               = "nats"
	executeTool                         = "execute_tool"
)

// Attributes returns every attribute that toolfleet uses, in no order.
func Attributes() []attribute.Key {
	return []attribute.Key{
		ServerName, Instance, Generation, ConnectionID, ConnectionAttempt, ConnectionUptime, WorkerID, ControllerID,
		EventID, EventType, EventSeq, CommandID, LinkKind, Outcome, State, RestartReason, BackoffDelay,
		Projection, Replay, Replayed, FirstSeq, LastSeq, Differences,
		MCPMethod, MCPProtocol, MCPResource, GenAIOperation, GenAITool, GenAIPrompt, ErrorType, RPCStatus,
		Transport, NetworkProtocol, ProcessPID, ProcessExit,
		MessagingSystem, MessagingOperation, MessagingType, MessagingTemplate, MessagingMessage, MessagingConversation,
	}
}

// The values of [LinkKind].
const (
	LinkCause        = "cause"
	LinkDesiredState = "desired-state"
	LinkPrevious     = "previous-attempt"
	LinkReadyEvent   = "ready-event"
	LinkReplayed     = "replayed-event"
	LinkSession      = "session"
)

// The values of [ErrorType] that are no code of a failure, which are in package
// events.
const (
	Timeout   = "timeout"
	Cancelled = "cancelled"
	ToolError = "tool_error" // the result of a call is an error of the tool's own
)

// The names of spans that have one name. None has an id in it.
const (
	SpanConnect        = "connect mcp-server"
	SpanReconnect      = "reconnect mcp-server"
	SpanDisconnect     = "disconnect mcp-server"
	SpanConnectionLost = "connection lost"
	SpanChange         = "change mcp-server"
	SpanConverge       = "converge mcp-server"
	SpanRebuild        = "rebuild projection"
	SpanVerify         = "verify projection"
	SpanSpawn          = "spawn"
)

// The destinations of messages, as templates.
const (
	CommandTemplate = "tf.cmd.{fleet}.{worker}.{server}.{instance}"
	CallTemplate    = "tf.call.{fleet}.{server}.{instance}.{epoch}"
)

// The buckets of durations, in seconds: of requests, as the conventions of MCP
// advise; of connections, which last for days; of connects; and of the way from
// a wish to its fulfilment.
var (
	RequestBuckets  = []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300}
	SessionBuckets  = []float64{1, 10, 60, 300, 1800, 3600, 21600, 86400, 604800, 2592000}
	ConnectBuckets  = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
	ConvergeBuckets = []float64{.1, .5, 1, 2, 5, 10, 30, 60, 300, 900}
	ApplyBuckets    = []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1}
)
