package worker

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mark3labs/mcp-go/mcp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/otel"
)

// meters are what a worker measures. The zero meters measure nothing.
type meters struct {
	calls    otel.Seconds[callKey]
	connects otel.Seconds[linkKey]
	sessions otel.Seconds[linkKey]
	restarts otel.Count[events.Code]
}

// callKey is what calls are told apart by: not by the server, of which there may
// be hundreds with the same tools.
type callKey struct{ method, tool, transport, protocol, failure string }

// linkKey is what connections are told apart by.
type linkKey struct {
	transport string
	failure   events.Code
}

func newMeters() meters {
	m := otel.Meter("worker")
	links := otel.NewSets(func(k linkKey) []attribute.KeyValue {
		return withFailure([]attribute.KeyValue{otel.Transport.String(k.transport)}, string(k.failure))
	}, func(linkKey) linkKey { return linkKey{} })
	return meters{
		calls: otel.NewSeconds(m, "mcp.client.operation.duration", "How long MCP requests took.", otel.RequestBuckets,
			otel.NewSets(callKey.attributes, callKey.rest)),
		connects: otel.NewSeconds(m, "toolfleet.connect.duration", "How long attempts to connect took, until the tools were listed.",
			otel.ConnectBuckets, links),
		sessions: otel.NewSeconds(m, "mcp.client.session.duration", "How long connections to MCP servers lasted.", otel.SessionBuckets, links),
		restarts: otel.NewCount(m, "toolfleet.restarts", "{restart}", "Attempts to connect after a failure, by that failure.",
			otel.NewSets(func(c events.Code) []attribute.KeyValue { return withFailure(nil, string(c)) },
				func(events.Code) events.Code { return events.OtherFailure })),
	}
}

// maxToolName bounds the names of tools in metrics, in bytes.
const maxToolName = 64

func (k callKey) attributes() []attribute.KeyValue {
	all := []attribute.KeyValue{otel.MCPMethod.String(k.method), otel.Transport.String(k.transport), otel.MCPProtocol.String(k.protocol)}
	if k.tool != "" {
		all = append(all, otel.GenAITool.String(k.tool))
	}
	return withFailure(all, k.failure)
}

// rest leaves out what there is too much of.
func (k callKey) rest() callKey {
	k.tool, k.protocol = "", ""
	if k.failure != "" {
		k.failure = string(events.OtherFailure)
	}
	return k
}

func withFailure(all []attribute.KeyValue, failure string) []attribute.KeyValue {
	if failure == "" {
		return all
	}
	return append(all, otel.ErrorType.String(failure))
}

// transportOf names the transport of a definition as the conventions do.
func transportOf(d *events.Definition) string {
	if d.Transport() == events.Stdio {
		return "pipe"
	}
	return "tcp"
}

// The kinds of the spans of a call, made once: options are allocated.
var (
	processing = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer)}
	asking     = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}
)

// witness tells telemetry of one call: that the worker took it, and what it
// asked of the server.
type witness struct {
	desk    *desk
	request *callwire.Request
	method  string
	began   time.Time
	process trace.Span // nil if nothing is recorded
	client  trace.Span
}

// witness begins the spans of a call, in the caller's trace.
func (d *desk) witness(ctx context.Context, r *callwire.Request) (context.Context, witness) {
	w := witness{desk: d, request: r, method: cmp.Or(r.Method, callwire.CallTool)}
	if otel.Measuring() {
		w.began = time.Now()
	}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = otel.Extract(ctx, r.Trace.Parent, r.Trace.State)
	}
	tracer := d.host.options.Tracer
	if !otel.Records(tracer) {
		return ctx, w
	}
	of, process := tracer.Start(ctx, "process "+otel.CallTemplate, processing...)
	if !process.IsRecording() {
		return ctx, w
	}
	w.process = process
	all := append(otel.Message("process", "process", otel.CallTemplate), otel.MessagingMessage.String(r.ID))
	w.process.SetAttributes(append(all, d.who...)...)
	of, w.client = tracer.Start(of, otel.RequestName(w.method, r.Tool), asking...) //nolint:spancheck // By end.
	w.client.SetAttributes(d.wire(append(otel.Request(w.method, r.Tool), d.who...))...)
	return of, w
}

// wire adds what is known of the connection.
func (d *desk) wire(all []attribute.KeyValue) []attribute.KeyValue {
	all = append(all, otel.Transport.String(transportOf(d.definition)))
	if d.definition.Transport() != events.Stdio {
		all = append(all, otel.NetworkProtocol.String("http"))
	}
	if d.conn.hello != nil {
		all = append(all, otel.MCPProtocol.String(d.conn.hello.revision))
	}
	return all
}

// end ends the spans of a call, and measures it.
func (w *witness) end(ctx context.Context, x *exchange, e *callwire.Error) {
	if w.process == nil && w.began.IsZero() {
		return
	}
	failure := ""
	switch {
	case e != nil && e.RPCCode != 0:
		failure = strconv.Itoa(e.RPCCode)
	case e != nil:
		failure = string(e.Failure.Code)
	case w.method == callwire.CallTool && isToolError(x.result):
		failure = otel.ToolError
	}
	if !w.began.IsZero() {
		w.measure(ctx, failure)
	}
	if w.process == nil {
		return
	}
	if failure != "" {
		w.client.SetAttributes(otel.ErrorType.String(failure))
		w.client.SetStatus(codes.Error, failure)
	}
	if e != nil {
		w.process.SetAttributes(otel.ErrorType.String(failure))
		w.process.SetStatus(codes.Error, string(e.Outcome))
		if e.RPCCode != 0 {
			w.client.SetAttributes(otel.RPCStatus.String(failure))
		}
	}
	w.client.End()
	w.process.End()
}

func (w *witness) measure(ctx context.Context, failure string) {
	k := callKey{method: w.method, transport: transportOf(w.desk.definition), failure: failure}
	if h := w.desk.conn.hello; h != nil {
		k.protocol = h.revision
	}
	if w.method == callwire.CallTool && failure != strconv.Itoa(codeInvalidParams) { // such a name may be anything
		k.tool = strings.ToValidUTF8(w.request.Tool[:min(len(w.request.Tool), maxToolName)], "?")
	}
	w.desk.host.meters.calls.Measure(ctx, time.Since(w.began), k)
}

// isToolError says whether a result is an error of the tool's own.
func isToolError(result jsontext.Value) bool {
	if !bytes.Contains(result, []byte(`"isError"`)) {
		return false
	}
	var r struct {
		IsError bool `json:"isError"`
	}
	lenient := json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return json.Unmarshal(result, &r, lenient) == nil && r.IsError
}

// who says which connection it is.
func (a *attempt) who() []attribute.KeyValue {
	s, n := string(a.address.Server), string(a.address.Instance)
	return []attribute.KeyValue{
		otel.ServerName.String(s), otel.Instance.String(n), otel.WorkerID.String(string(a.host.options.ID)),
		otel.ConnectionID.String(connectionID(s+"/"+n, a.ref)),
	}
}

// asks begins the span of a request that is part of connecting, and returns what
// ends it.
func asks(ctx context.Context, method string, x *exchange) (context.Context, func(error)) {
	ctx, span := otel.StartChild(ctx, method, trace.SpanKindClient)
	if !span.IsRecording() {
		return ctx, func(error) {}
	}
	span.SetAttributes(otel.MCPMethod.String(method))
	return ctx, func(err error) {
		switch {
		case err == nil:
		case x.failure != nil:
			code := strconv.Itoa(x.failure.Code)
			span.SetAttributes(otel.ErrorType.String(code), otel.RPCStatus.String(code))
			span.SetStatus(codes.Error, code)
		default:
			fails(ctx, span, err)
		}
		span.End()
	}
}

// spawns begins the span of the start of a process, and returns what ends it.
func spawns(ctx context.Context, command string) (context.Context, func(*process, error)) {
	ctx, span := otel.StartChild(ctx, otel.SpanSpawn+" "+filepath.Base(command), trace.SpanKindInternal)
	return ctx, func(p *process, err error) {
		if err != nil {
			fails(ctx, span, err)
		} else if span.IsRecording() {
			span.SetAttributes(otel.ProcessPID.Int(p.PID()))
		}
		span.End()
	}
}

// fails notes why a part of connecting failed. What the error says may be the
// server's.
func fails(ctx context.Context, span trace.Span, err error) {
	kind := string(events.OtherFailure)
	var f events.Failure
	switch {
	case errors.As(err, &f):
		kind = string(f.Code)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		kind = otel.Timeout
	case ctx.Err() != nil:
		kind = otel.Cancelled
	}
	span.SetAttributes(otel.ErrorType.String(kind))
	span.SetStatus(codes.Error, kind)
}

// traceFields returns the context for the _meta of a request.
func traceFields(ctx context.Context) map[string]any {
	parent, state := otel.Inject(ctx)
	if parent == "" {
		return nil
	}
	fields := map[string]any{"traceparent": parent}
	if state != "" {
		fields["tracestate"] = state
	}
	return fields
}

// traceMeta is the same for a request that else has no _meta.
func traceMeta(ctx context.Context) *mcp.Meta {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	return &mcp.Meta{AdditionalFields: traceFields(ctx)}
}

// traceHeader puts the context into the header of an HTTP request, for servers
// that look there.
func traceHeader(ctx context.Context, h http.Header) {
	if parent, state := otel.Inject(ctx); parent != "" {
		h.Set("Traceparent", parent)
		if state != "" {
			h.Set("Tracestate", state)
		}
	}
}
