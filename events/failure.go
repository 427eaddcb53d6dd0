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
	PhaseResolve   Phase = "resolve"
	PhaseSpawn     Phase = "spawn"
	PhaseConnect   Phase = "connect"
	PhaseHandshake Phase = "handshake"
	PhaseList      Phase = "list"
	PhaseRun       Phase = "run"
	PhaseStop      Phase = "stop"
)

// Code is the cause of a failure, from a closed list ([Codes]); it is also the
// error.type of spans and metrics. HTTP answers form a family: "http_502".
type Code string

// The codes of failures.
const (
	InvalidID            Code = "invalid_id"
	InvalidDefinition    Code = "invalid_definition"
	UnresolvedVariable   Code = "unresolved_variable"
	CommandNotFound      Code = "command_not_found"
	CwdNotFound          Code = "cwd_not_found"
	SpawnFailed          Code = "spawn_failed"
	StartupCrash         Code = "startup_crash"
	ConnectTimeout       Code = "connect_timeout"
	ConnectionRefused    Code = "connection_refused"
	DNS                  Code = "dns"
	TLS                  Code = "tls"
	AuthenticationNeeded Code = "auth_required"
	ProtocolUnsupported  Code = "protocol_version_unsupported"
	HandshakeFailed      Code = "handshake_failed"
	StdoutNotJSONRPC     Code = "stdout_not_jsonrpc"
	FrameTooLarge        Code = "frame_too_large"
	ToolsListFailed      Code = "tools_list_failed"
	Exited               Code = "exited"
	Killed               Code = "killed"
	ConnectionLost       Code = "connection_lost"
	PingTimeout          Code = "ping_timeout"
	StopHung             Code = "stop_hung"
	LeaseLost            Code = "lease_lost"
	NoOwner              Code = "no_owner"
	CallTimeout          Code = "call_timeout"
	CallCancelled        Code = "call_cancelled"
	CallInterrupted      Code = "call_interrupted"
	RPCError             Code = "rpc_error"
	HistoryFull          Code = "history-full"
	HistoryRegressed     Code = "history-regressed"
	HistoryIncomplete    Code = "history-incomplete"
	OtherFailure         Code = "other"
)

const httpFamily = "http_"

// HTTPStatus is the code of an HTTP answer that is an error.
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

// NewFailure returns a failure whose Retry is the code's default.
func NewFailure(code Code, phase Phase, message string) Failure {
	e, _ := Explain(code)
	return Failure{Code: code, Phase: phase, Message: message, Retry: e.Retry}
}

// Explain returns what there is to know about a code, or false for one that is
// not in the list.
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
