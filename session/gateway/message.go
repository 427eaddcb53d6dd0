package gateway

import (
	"bytes"
	"slices"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Codes of JSON-RPC errors.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeUnknownMethod  = -32601
	codeInvalidParams  = -32602
	codeBusy           = -32000
	codeCancelled      = -32800
)

// message is one JSON-RPC message of a client.
type message struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id,omitzero"`
	Method  string         `json:"method,omitzero"`
	Params  jsontext.Value `json:"params,omitzero"`
	Result  jsontext.Value `json:"result,omitzero"`
	Error   jsontext.Value `json:"error,omitzero"`
}

// isRequest says whether the message wants an answer.
func (m *message) isRequest() bool { return m.Method != "" && m.ID != nil }

// rpcError is an answer that is an error.
type rpcError struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data,omitzero"`
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
	return &m, nil
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
	var e *rpcError
	if !errors.As(err, &e) {
		e = &rpcError{Code: codeInvalidRequest, Message: err.Error()}
	}
	if id == nil {
		id = jsontext.Value("null")
	}
	return line(`{"jsonrpc":"2.0","id":`, id, `,"error":`, mustMarshal(e))
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
	data := slices.Concat([]byte(before), first, []byte(between), second, []byte("}"))
	for i, b := range data {
		if b == '\n' || b == '\r' {
			data[i] = ' '
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

// withMember returns an object with the value of one member replaced, or the
// member put first where there is none. All else stays byte for byte.
func withMember(object jsontext.Value, name string, value jsontext.Value) (jsontext.Value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(object))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, errors.Newf("set the member %s: not an object", name)
	}
	first := d.InputOffset()
	for d.PeekKind() != '}' {
		key, err := d.ReadToken()
		if err != nil {
			return nil, errors.Wrapf(err, "set the member %s", name)
		}
		found := key.String() == name // before the decoder goes on
		old, err := d.ReadValue()
		if err != nil {
			return nil, errors.Wrapf(err, "set the member %s", name)
		}
		if found {
			end := d.InputOffset()
			return slices.Concat(object[:end-int64(len(old))], value, object[end:]), nil
		}
	}
	comma := []byte(",")
	if bytes.HasPrefix(bytes.TrimLeft(object[first:], " \t\r\n"), []byte("}")) {
		comma = nil
	}
	return slices.Concat(object[:first], mustMarshal(name), []byte(":"), value, comma, object[first:]), nil
}
