package events

import (
	"slices"
	"strconv"
	"strings"
)

// Failure says why something did not work. It is a value inside events, views
// and answers, and holds no secret.
type Failure struct {
	Code  Code  `json:"code"`
	Phase Phase `json:"phase,omitzero"`
	// Message is for people; nothing is decided by it.
	Message string `json:"message,omitzero"`
	// Retry says whether trying again, with nothing changed, can help.
	Retry bool `json:"retry,omitzero"`
}

// Error returns "<code> (<phase>): <message>", without what is empty.
func (f Failure) Error() string {
	s := string(f.Code)
	if f.Phase != "" {
		s += " (" + string(f.Phase) + ")"
	}
	if f.Message != "" {
		s += ": " + f.Message
	}
	return s
}

// Phase is the part of an instance's life in which it failed.
type Phase string

// The phases, in order.
const (
	PhaseResolve   Phase = "resolve"   // variables and secrets are looked up
	PhaseSpawn     Phase = "spawn"     // the process is started
	PhaseConnect   Phase = "connect"   // the url is dialled
	PhaseHandshake Phase = "handshake" // MCP's initialize, or what replaces it
	PhaseList      Phase = "list"      // the first list of tools
	PhaseRun       Phase = "run"       // the connection is open
	PhaseStop      Phase = "stop"      // the connection is being closed
)

// Code is the cause of a failure, from a closed list ([Codes]); it is also the
// error.type of spans and metrics. HTTP answers form a family: "http_502".
type Code string

// The codes of failures, in the order of an instance's life. [Explain] says more
// of each, what helps, and whether trying again can.
const (
	InvalidID            Code = "invalid_id"                   // an id that is none, see ParseServerID
	InvalidDefinition    Code = "invalid_definition"           // a definition that cannot be used as it is written
	UnresolvedVariable   Code = "unresolved_variable"          // a variable or secret has no value on the worker
	CommandNotFound      Code = "command_not_found"            // no executable file of that name on the worker
	CwdNotFound          Code = "cwd_not_found"                // no such working directory on the worker
	SpawnFailed          Code = "spawn_failed"                 // the operating system did not start the process
	StartupCrash         Code = "startup_crash"                // the process ended before the handshake was done
	ConnectTimeout       Code = "connect_timeout"              // handshake and first tool list took too long
	ConnectionRefused    Code = "connection_refused"           // nothing listens at the url
	DNS                  Code = "dns"                          // the url's host name was not resolved
	TLS                  Code = "tls"                          // the TLS handshake failed
	AuthenticationNeeded Code = "auth_required"                // credentials are missing or were refused
	ProtocolUnsupported  Code = "protocol_version_unsupported" // no MCP revision in common
	HandshakeFailed      Code = "handshake_failed"             // MCP's handshake was answered with an error, or wrongly
	StdoutNotJSONRPC     Code = "stdout_not_jsonrpc"           // the process writes something else to its stdout
	FrameTooLarge        Code = "frame_too_large"              // one message exceeds the limit
	ToolsListFailed      Code = "tools_list_failed"            // tools were announced, but not listed
	Exited               Code = "exited"                       // the process ended by itself
	Killed               Code = "killed"                       // a signal that was not ours ended the process
	ConnectionLost       Code = "connection_lost"              // the connection to the server broke
	PingTimeout          Code = "ping_timeout"                 // the server stopped answering
	StopHung             Code = "stop_hung"                    // it was told to stop, and is still there
	LeaseLost            Code = "lease_lost"                   // the worker stopped it, because its lease was over
	NoOwner              Code = "no_owner"                     // a call found nobody who answers
	CallTimeout          Code = "call_timeout"                 // a call was not answered in its time
	CallCancelled        Code = "call_cancelled"               // the caller cancelled the call
	CallInterrupted      Code = "call_interrupted"             // a connection broke during the call
	RPCError             Code = "rpc_error"                    // the server answered the call with a JSON-RPC error
	HistoryFull          Code = "history-full"                 // see ErrHistoryFull
	HistoryRegressed     Code = "history-regressed"            // see ErrHistoryRegressed
	HistoryIncomplete    Code = "history-incomplete"           // see ErrHistoryIncomplete
	OtherFailure         Code = "other"                        // none of these
)

const httpFamily = "http_"

// HTTPStatus is the code of an HTTP answer that is an error, such as "http_502".
func HTTPStatus(status int) Code { return Code(httpFamily + strconv.Itoa(status)) }

// Explanation is what there is to know about a code.
type Explanation struct {
	Code Code
	// Meaning is one sentence.
	Meaning string
	// WayOut says what usually helps.
	WayOut string
	// Retry is the default of [Failure.Retry].
	Retry bool
}

// NewFailure returns a failure whose Retry is the code's default, or false for a
// code that is not in the list.
func NewFailure(code Code, phase Phase, message string) Failure {
	e, _ := Explain(code)
	return Failure{Code: code, Phase: phase, Message: message, Retry: e.Retry}
}

// Explain returns what there is to know about a code, or false for one that is
// not in the list. Of the HTTP family it knows "http_100" to "http_599"; trying
// again can help with 408, 425, 429 and from 500 on.
func Explain(code Code) (Explanation, bool) {
	if status, ok := strings.CutPrefix(string(code), httpFamily); ok {
		n, err := strconv.Atoi(status)
		if err != nil || n < 100 || n > 599 || len(status) != 3 {
			return Explanation{}, false
		}
		e := httpExplanation
		e.Code, e.Retry = code, n == 408 || n == 425 || n == 429 || n >= 500
		return e, true
	}
	i := slices.IndexFunc(explanations, func(e Explanation) bool { return e.Code == code })
	if i < 0 {
		return Explanation{}, false
	}
	return explanations[i], true
}

// Codes returns every code with its explanation, in the order of an instance's
// life; the HTTP family appears once, as "http_<status>".
func Codes() []Explanation {
	e := httpExplanation
	return append(slices.Clone(explanations), e)
}

var httpExplanation = Explanation{
	Code:    httpFamily + "<status>",
	Meaning: "The server's HTTP endpoint answered with an error status.",
	WayOut:  "Check the url and the headers of the definition, and the server's own log for that time.",
}
