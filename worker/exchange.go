package worker

import (
	"bytes"
	"context"
	"maps"
	"sync/atomic"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/toolfleet/toolfleet/events/callwire"
)

// errNotWritten marks errors of requests of which no byte was sent.
var errNotWritten = errors.New("not sent")

// exchange is what a request looked like on the wire. The MCP library's own
// values lose members, large numbers and the data of errors; these are the
// bytes. It belongs to the goroutine that makes the request, but for written.
type exchange struct {
	// check, if set, is asked immediately before the request is written.
	check func() error
	// params, if set, are sent instead of the MCP library's.
	params jsontext.Value
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
	digest, known := digests[method]
	if !known || digest.question && bytes.Contains(result, []byte(inputRequired)) {
		return result
	}
	return digest.result
}

// digests are the results that the MCP library gets, by method; question says that
// the method's may be a question instead.
var digests = map[string]struct {
	result   jsontext.Value
	question bool
}{
	string(mcp.MethodToolsList):              {jsontext.Value(`{"tools":[]}`), false},
	string(mcp.MethodResourcesList):          {jsontext.Value(`{"resources":[]}`), false},
	string(mcp.MethodResourcesTemplatesList): {jsontext.Value(`{"resourceTemplates":[]}`), false},
	string(mcp.MethodPromptsList):            {jsontext.Value(`{"prompts":[]}`), false},
	callwire.CallTool:                        {jsontext.Value(`{"content":[]}`), true},
	callwire.ReadResource:                    {jsontext.Value(`{"contents":[]}`), true},
	callwire.GetPrompt:                       {jsontext.Value(`{"messages":[]}`), true},
	callwire.Complete:                        {jsontext.Value(`{"completion":{"values":[]}}`), false},
}

// parameters returns those of the exchange, with what the MCP library has in
// _meta: the stateless revision needs it.
func (x *exchange) parameters(library any) (jsontext.Value, error) {
	data, err := jsonv1.Marshal(library)
	if err != nil {
		return nil, err
	}
	var params struct {
		Meta map[string]jsontext.Value `json:"_meta"`
	}
	if err := json.Unmarshal(data, &params); err != nil {
		return nil, err
	}
	return withMeta(x.params, params.Meta)
}

// withMeta returns parameters with more members of _meta, and else as they were.
// Without parameters they are an object that has nothing else.
func withMeta(params jsontext.Value, more map[string]jsontext.Value) (jsontext.Value, error) {
	if len(more) == 0 && params != nil {
		return params, nil
	}
	var p struct {
		Meta map[string]jsontext.Value `json:"_meta,omitzero"`
		Rest jsontext.Value            `json:",embed"`
	}
	if params != nil {
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, err
		}
	}
	if p.Meta == nil {
		p.Meta = make(map[string]jsontext.Value, len(more))
	}
	maps.Copy(p.Meta, more)
	return json.Marshal(&p, json.Deterministic(true))
}
