package worker

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// JSON-RPC's own error codes, and MCP's for a revision.
const (
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternalError      = -32603
	codeUnsupportedVersion = -32022
)

// answer answers a server's request: ping, and the roots that the definition
// declares. Nothing else was offered, so nothing else is known.
func answer(id jsontext.Value, method string, roots []string) *frame {
	f := &frame{ID: id}
	switch {
	case method == "ping":
		f.Result = jsontext.Value(`{}`)
	case method == "roots/list" && len(roots) > 0:
		type root struct {
			URI string `json:"uri"`
		}
		list := make([]root, len(roots))
		for i, uri := range roots {
			list[i].URI = uri
		}
		f.Result = mustJSON(struct {
			Roots []root `json:"roots"`
		}{list})
	default:
		f.Error = mustJSON(rpcError{Code: codeMethodNotFound, Message: "method not found: " + clean(method, 100)})
	}
	return f
}

// mustJSON encodes values of ours, which cannot fail: invalid UTF-8 is replaced.
func mustJSON(v any) jsontext.Value {
	data, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // unreachable unless v has a type that JSON has not
	}
	return data
}
