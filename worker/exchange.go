package worker

import (
	"bytes"
	"context"
	"sync/atomic"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mark3labs/mcp-go/mcp"
)

// errNotWritten marks errors of requests of which no byte was sent.
var errNotWritten = errors.New("not sent")

// exchange is what a request looked like on the wire. The MCP library's own
// values lose members, large numbers and the data of errors; these are the
// bytes. It belongs to the goroutine that makes the request, but for written.
type exchange struct {
	// check, if set, is asked immediately before the request is written.
	check func() error
	// written says that bytes of it may have been sent.
	written atomic.Bool
	// result is that of the last answer, or failure its error.
	result  jsontext.Value
	failure *rpcError
	// status is that of the last HTTP answer, or 0; hint its WWW-Authenticate.
	status int
	hint   string
}

type exchangeKey struct{}

// withExchange has the transports record what happens under the context.
func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf returns the context's exchange, or one that nobody looks at.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

// answered records an answer.
func (x *exchange) answered(result jsontext.Value, failure *rpcError) {
	x.result, x.failure = result, failure
}

// asksForInput says whether the result is a question instead of an answer.
func (x *exchange) asksForInput() bool {
	var r struct {
		Type string `json:"resultType"`
	}
	lenient := json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return bytes.Contains(x.result, []byte(inputRequired)) &&
		json.Unmarshal(x.result, &r, lenient) == nil && r.Type == inputRequired
}

// inputRequired is the result type of a question.
const inputRequired = "input_required"

// allowed asks the check.
func (x *exchange) allowed() error {
	if x.check == nil {
		return nil
	}
	return errors.Mark(x.check(), errNotWritten)
}

// digestible returns a result for the MCP library to decode. Its types refuse
// tools and results that are good, and cost many times their size; what they
// are not needed for is left out, since the exchange has it.
func digestible(method string, result jsontext.Value) jsontext.Value {
	switch {
	case method == string(mcp.MethodToolsList):
		return jsontext.Value(`{"tools":[]}`)
	case method == string(mcp.MethodToolsCall) && !bytes.Contains(result, []byte(inputRequired)):
		return jsontext.Value(`{"content":[]}`)
	default:
		return result
	}
}
