package session

import (
	"fmt"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Result is what a tool answered.
type Result struct {
	// JSON is the CallToolResult as the server sent it.
	JSON jsontext.Value
	// IsError says that the tool reports an error of its own.
	IsError bool
}

// readResult reads what the owner of an instance answered.
func readResult(data []byte) (*Result, error) {
	var r struct {
		IsError bool `json:"isError"`
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, errors.Wrap(err, "read the tool's result")
	}
	return &Result{JSON: data, IsError: r.IsError}, nil
}

// AsResult returns an error of [Session.Call] as a result for a model to read:
// text that begins with "MCP error: ". A cancelled call stays one: then there
// is no result.
func AsResult(err error) (*Result, bool) {
	if err == nil || errors.Is(err, ErrCancelled) {
		return nil, false
	}
	type content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	data, err := json.Marshal(struct {
		Content []content `json:"content"`
		IsError bool      `json:"isError"`
	}{[]content{{"text", fmt.Sprintf("MCP error: %v", err)}}, true})
	if err != nil {
		return nil, false // unreachable: text is always JSON
	}
	return &Result{JSON: data, IsError: true}, true
}
