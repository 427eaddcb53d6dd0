package gateway

import (
	"bytes"
	"slices"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Codes of JSON-RPC errors. The last ones are this gateway's own, outside of the
// range that JSON-RPC reserves.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeUnknownMethod  = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeNoResource     = -32002 // of earlier revisions
	codeHeaders        = -32020
	codeRevision       = -32022
	codeCancelled      = -32800
	codeBusy           = -31429
	codeForbidden      = -31403
)

// message is one JSON-RPC message of a client.
type message struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id,omitzero"`
	Method  string         `json:"method,omitzero"`
	Params  jsontext.Value `json:"params,omitzero"`
	Result  jsontext.Value `json:"result,omitzero"`
	Error   jsontext.Value `json:"error,omitzero"`

	// meta is what the parameters say about the message itself.
	meta meta
}

// meta is the member "_meta" of parameters, as far as it matters here.
type meta struct {
	Token        jsontext.Value `json:"progressToken"`
	Revision     string         `json:"io.modelcontextprotocol/protocolVersion"`
	Capabilities jsontext.Value `json:"io.modelcontextprotocol/clientCapabilities"`
	Level        string         `json:"io.modelcontextprotocol/logLevel"`
	Parent       jsontext.Value `json:"traceparent"`
	State        jsontext.Value `json:"tracestate"`
}

// isRequest says whether the message wants an answer.
func (m *message) isRequest() bool { return m.Method != "" && m.ID != nil }

// rpcError is an answer that is an error.
type rpcError struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data,omitzero"`

	// status is that of HTTP, where it is not 200.
	status int
}

func (e *rpcError) Error() string { return e.Message }

// decode reads a message, strictly: names are matched exactly, and occur once.
// With an error the message has the id to answer it with, as far as there is one.
func decode(data []byte) (*message, *rpcError) {
	var m message
	if jsontext.Value(data).Kind() == '[' {
		return &m, &rpcError{Code: codeInvalidRequest, Message: "batches are not served: send each message by itself"}
	}
	if err := json.Unmarshal(data, &m); err != nil {
		code := codeInvalidRequest
		if !jsontext.Value(data).IsValid() {
			code = codeParse
		}
		return &message{}, &rpcError{Code: code, Message: "read the message: " + err.Error()}
	}
	switch kind := m.ID.Kind(); {
	case m.ID != nil && kind != '"' && kind != '0':
		m.ID = nil
		return &m, &rpcError{Code: codeInvalidRequest, Message: "an id is a string or a number"}
	case m.JSONRPC != "2.0":
		return &m, &rpcError{Code: codeInvalidRequest, Message: `the member "jsonrpc" is not "2.0"`}
	case m.Method == "" && (m.ID == nil || m.Result == nil && m.Error == nil):
		return &m, &rpcError{Code: codeInvalidRequest, Message: "the message is neither a request nor a notification nor an answer"}
	case m.Params != nil && m.Params.Kind() != '{':
		return &m, &rpcError{Code: codeInvalidRequest, Message: "the parameters are not an object"}
	}
	return &m, m.readMeta()
}

func (m *message) readMeta() *rpcError {
	if m.Params == nil {
		return nil
	}
	var p struct {
		Meta meta `json:"_meta"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return &rpcError{Code: codeInvalidParams, Message: "read _meta: " + err.Error()}
	}
	m.meta = p.Meta
	return nil
}

// read reads the members of parameters that matter to a method.
func read(params jsontext.Value, into any) error {
	if params == nil {
		return nil
	}
	if err := json.Unmarshal(params, into); err != nil {
		return &rpcError{Code: codeInvalidParams, Message: "read the parameters: " + err.Error()}
	}
	return nil
}

// answer returns the message that ends a request: with a result, as it is, or with
// an error.
func answer(id, result jsontext.Value, err error) []byte {
	if err != nil {
		return failure(id, err)
	}
	return line(`{"jsonrpc":"2.0","id":`, id, `,"result":`, result)
}

func failure(id jsontext.Value, err error) []byte {
	e := asRPC(err)
	if id == nil {
		id = jsontext.Value("null")
	}
	return line(`{"jsonrpc":"2.0","id":`, id, `,"error":`, mustMarshal(e))
}

// asRPC returns an error as one that can be answered.
func asRPC(err error) *rpcError {
	var e *rpcError
	if errors.As(err, &e) {
		return e
	}
	return &rpcError{Code: codeInvalidRequest, Message: err.Error()}
}

// notification returns a message that wants no answer.
func notification(method string, params jsontext.Value) []byte {
	name := mustMarshal(method)
	if params == nil {
		params = jsontext.Value("{}")
	}
	return line(`{"jsonrpc":"2.0","method":`, name, `,"params":`, params)
}

// line puts a message together, on one line: in JSON line breaks stand only between
// tokens, where a space is as good.
func line(before string, first jsontext.Value, between string, second jsontext.Value) []byte {
	data := make([]byte, 0, len(before)+len(first)+len(between)+len(second)+len("}\n"))
	data = append(append(append(append(append(data, before...), first...), between...), second...), '}')
	for _, end := range []byte("\n\r") {
		for rest := data; ; {
			i := bytes.IndexByte(rest, end)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
	return data
}

// mustMarshal encodes values of this package's types, which always can be.
func mustMarshal(v any) jsontext.Value {
	data, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // unreachable: they hold text, numbers and JSON that was read
	}
	return data
}

// members calls f with the name of each member of an object, its value, and where
// that ends, as long as f returns true.
func members(object jsontext.Value, f func(name string, value jsontext.Value, end int64) bool) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(object))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return errors.New("not an object")
	}
	for d.PeekKind() != '}' {
		key, err := d.ReadToken()
		if err != nil {
			return errors.Wrap(err, "read the name of a member")
		}
		name := key.String() // before the decoder goes on
		value, err := d.ReadValue()
		if err != nil {
			return errors.Wrapf(err, "read the member %s", name)
		}
		if !f(name, value, d.InputOffset()) {
			return nil
		}
	}
	return nil
}

// withMember returns an object with the value of one member replaced, or the
// member put first where there is none. All else stays byte for byte.
func withMember(object jsontext.Value, name string, value jsontext.Value) (jsontext.Value, error) {
	var changed jsontext.Value
	err := members(object, func(key string, old jsontext.Value, end int64) bool {
		if key == name {
			changed = slices.Concat(object[:end-int64(len(old))], value, object[end:])
		}
		return changed == nil
	})
	if err != nil {
		return nil, errors.Wrapf(err, "set the member %s", name)
	}
	if changed == nil {
		changed = prepend(object, name, value)
	}
	return changed, nil
}

// withDefault returns an object with a member, put first unless there is one of
// that name. All else stays byte for byte.
func withDefault(object jsontext.Value, name string, value jsontext.Value) (jsontext.Value, error) {
	if bytes.Contains(object, []byte(name)) || bytes.Contains(object, []byte(`\u`)) { // a name may be written that way
		found := false
		if err := members(object, func(key string, _ jsontext.Value, _ int64) bool {
			found = key == name
			return !found
		}); err != nil || found {
			return object, err
		}
	}
	return prepend(object, name, value), nil
}

// prepend returns an object with one more member, which is the first.
func prepend(object jsontext.Value, name string, value jsontext.Value) jsontext.Value {
	start := bytes.IndexByte(object, '{') + 1
	comma := ","
	if bytes.HasPrefix(bytes.TrimLeft(object[start:], " \t\r\n"), []byte("}")) {
		comma = ""
	}
	out := make(jsontext.Value, 0, len(object)+len(name)+len(value)+len(`"":,`))
	out = append(append(out, object[:start]...), '"')
	out = append(append(append(out, name...), `":`...), value...)
	return append(append(out, comma...), object[start:]...)
}
