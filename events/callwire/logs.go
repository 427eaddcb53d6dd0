package callwire

import (
	"bytes"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
)

// LogsTool is the tool that a request for logs names.
const LogsTool = "logs"

// LogsRequest asks for what an instance's process, or connection, said.
type LogsRequest struct {
	Server   events.ServerID   `json:"server"`
	Instance events.InstanceID `json:"instance"`
	// Tail is how many of the last lines are wanted; below 0 it is all.
	Tail int `json:"tail"`
	// Previous asks for the process before the last start instead of the last one.
	Previous bool `json:"previous,omitzero"`
	// Follow asks for what is said from then on as well, of every later process,
	// until the call is cancelled.
	Follow bool `json:"follow,omitzero"`
}

// LogsResult ends a request for logs.
type LogsResult struct {
	End LogsEnd `json:"end"`
}

// LogsEnd says why there are no more lines.
type LogsEnd string

// The ends of logs.
const (
	// LogsComplete says that these were all lines.
	LogsComplete LogsEnd = "complete"
	// LogsNone says that the worker has no log of that process, or instance.
	LogsNone LogsEnd = "none"
	// LogsOff says that the worker keeps no logs.
	LogsOff LogsEnd = "off"
	// LogsStopped says that the worker stops.
	LogsStopped LogsEnd = "stopped"
)

// LogLine is one line of a log.
type LogLine struct {
	Time time.Time `json:"time"`
	// Epoch and Attempt are those of the connection.
	Epoch   events.Epoch `json:"epoch"`
	Attempt int          `json:"attempt"`
	Stream  LogStream    `json:"stream"`
	// Text has no line feeds, no secrets that its worker knows, and nothing that a
	// terminal acts on.
	Text string `json:"text"`
}

// LogStream is where a line comes from.
type LogStream string

// The streams of a log.
const (
	// Stderr is that of the process.
	Stderr LogStream = "stderr"
	// MCPLog are MCP log notifications.
	MCPLog LogStream = "mcp"
	// OfWorker is what the worker adds: when a process begins and ends, and what
	// was left out.
	OfWorker LogStream = "worker"
)

// AppendLogLine appends a line as JSON, and a line feed.
func AppendLogLine(to []byte, l *LogLine) []byte {
	data, err := json.Marshal(l, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return to // unreachable unless the time is beyond the year 9999
	}
	return append(append(to, data...), '\n')
}

// DecodeLogLines is the inverse of [AppendLogLine]. What is no line is left out,
// and is an error.
func DecodeLogLines(data []byte) (lines []LogLine, err error) {
	for text := range bytes.Lines(data) {
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		var l LogLine
		if e := json.Unmarshal(text, &l); e != nil {
			err = errors.Wrap(e, "decode a line of a log")
			continue
		}
		lines = append(lines, l)
	}
	return lines, err
}
