package mcptest

import (
	"os"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
)

// Script says how a server behaves.
type Script struct {
	// Tools are the names of its tools. Nil: it says that it has none.
	Tools []string `json:"tools,omitempty"`
	// Raw are tools that are listed exactly as they are written here, instead of
	// Tools; PageSize, if not 0, of them at a time.
	Raw      []jsontext.Value `json:"raw,omitempty"`
	PageSize int              `json:"pageSize,omitzero"`
	// CursorLoop returns the same cursor for ever, UnlistedTools an error.
	CursorLoop    bool `json:"cursorLoop,omitzero"`
	UnlistedTools bool `json:"unlistedTools,omitzero"`

	// Resources are the URIs of its resources, Templates those of its templates,
	// Prompts the names of its prompts. Nil: it says that it has none. Completes
	// says that it completes arguments.
	Resources []string `json:"resources,omitempty"`
	Templates []string `json:"templates,omitempty"`
	Prompts   []string `json:"prompts,omitempty"`
	Completes bool     `json:"completes,omitzero"`
	// RawLists are, by the method that lists, what is listed of them as it is
	// written here, PageSize at a time. Errors are, by the method, the JSON-RPC
	// errors that it is answered with instead, after ErrorMs.
	RawLists map[string][]jsontext.Value `json:"rawLists,omitempty"`
	Errors   map[string]jsontext.Value   `json:"errors,omitempty"`
	ErrorMs  int                         `json:"errorMs,omitzero"`

	// Refuse, if set, is the JSON-RPC error that initialize is answered with.
	Refuse jsontext.Value `json:"refuse,omitzero"`
	// Revision, if set, is what initialize is answered with, whatever was asked.
	Revision string `json:"revision,omitzero"`
	// DelayMs is before the answer to initialize; Mute leaves it out.
	DelayMs int  `json:"delayMs,omitzero"`
	Mute    bool `json:"mute,omitzero"`

	// Ping, if set, is what ping is answered with: "unknown" that there is no such
	// method, "ignored" not at all.
	Ping string `json:"ping,omitzero"`

	// What follows is for processes only.

	// Stderr is written at the start; Exit, if set, is the status to exit with
	// right after that.
	Stderr string `json:"stderr,omitzero"`
	Exit   *int   `json:"exit,omitzero"`
	// Noise are lines written to stdout at the start, as they are.
	Noise []string `json:"noise,omitempty"`
	// Flood writes to stdout for ever, without an end of line.
	Flood bool `json:"flood,omitzero"`
	// OneByOne reads nothing while a tool sleeps.
	OneByOne bool `json:"oneByOne,omitzero"`
	// Silent reads on, but answers nothing after the first list of tools.
	Silent bool `json:"silent,omitzero"`
	// Deaf stops reading stdin after the first list of tools.
	Deaf bool `json:"deaf,omitzero"`
	// KeepOn ignores the end of stdin, Stubborn ignores TERM as well.
	KeepOn   bool `json:"keepOn,omitzero"`
	Stubborn bool `json:"stubborn,omitzero"`
	// Helper starts another process of the group, which keeps stdout open.
	Helper bool `json:"helper,omitzero"`
	// Record is the path of a [Record], or "".
	Record string `json:"record,omitzero"`

	// helping makes the process a helper.
	Helping bool `json:"helping,omitzero"`
}

// variable is what tells a test binary that it is a server.
const variable = "TOOLFLEET_MCPTEST"

// Definition returns a stdio server that follows the script.
func (s Script) Definition(t testing.TB) events.Definition {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return events.Definition{Type: events.Stdio, Command: self, Env: map[string]string{variable: s.encode()}}
}

func (s Script) encode() string {
	text, err := json.Marshal(&s, json.Deterministic(true))
	if err != nil {
		panic(err) // a test wrote raw JSON that is none
	}
	return string(text)
}

// Main runs the server and exits, if the process was started to be one. It
// belongs at the beginning of TestMain.
func Main() {
	text, ok := os.LookupEnv(variable)
	if !ok {
		return
	}
	var s Script
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		panic(err)
	}
	s.main()
}
