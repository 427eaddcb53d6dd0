package telemetry

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolfleet/toolfleet/otel"
)

// serverVariable makes the test binary an MCP server that traces what it does, as
// a child of a worker. Its value is how long the server takes to start.
const serverVariable = "TELEMETRY_TEST_SERVER"

func TestMain(m *testing.M) {
	if delay, ok := os.LookupEnv(serverVariable); ok {
		os.Exit(serve(delay, os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// request is a JSON-RPC request.
type request struct {
	ID     jsontext.Value `json:"id,omitzero"`
	Method string         `json:"method"`
	Params struct {
		Name string `json:"name"`
		Meta struct {
			Parent string `json:"traceparent"`
			State  string `json:"tracestate"`
		} `json:"_meta"`
	} `json:"params"`
}

// serve answers requests until its input ends, each in a span below the one that
// its _meta names. The tool "die" ends it with status 3.
func serve(delay string, in io.Reader, out io.Writer) int {
	ctx := context.Background()
	telemetry, err := otel.Start(ctx, &otel.Options{Service: "mcp-test-server"})
	if err != nil {
		return 2
	}
	defer func() { _ = telemetry.Shutdown(ctx) }()
	if d, err := time.ParseDuration(delay); err == nil {
		<-time.After(d)
	}
	tracer := otel.Tracer("integration/telemetry")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var r request
		if json.Unmarshal(lines.Bytes(), &r) != nil || r.ID == nil {
			continue
		}
		of := otel.Extract(ctx, r.Params.Meta.Parent, r.Params.Meta.State)
		_, span := tracer.Start(of, otel.RequestName(r.Method, r.Params.Name), trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("test.otel", otelVariables())))
		span.End()
		if r.Params.Name == "die" {
			_ = telemetry.Shutdown(ctx)
			return 3
		}
		answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": r.ID, "result": result(&r)})
		if err != nil {
			return 2
		}
		if _, err := out.Write(append(answer, '\n')); err != nil {
			return 0
		}
	}
	return 0
}

func result(r *request) any {
	switch r.Method {
	case "initialize":
		return map[string]any{
			"protocolVersion": "2025-11-25", "serverInfo": map[string]any{"name": "test", "version": "1"},
			"capabilities": map[string]any{"tools": map[string]any{}},
		}
	case "tools/list":
		schema := map[string]any{"type": "object"}
		return map[string]any{"tools": []any{
			map[string]any{"name": "echo", "inputSchema": schema},
			map[string]any{"name": "die", "inputSchema": schema},
			map[string]any{"name": "refuse", "inputSchema": schema},
		}}
	case "tools/call":
		return map[string]any{
			"content": []any{map[string]any{"type": "text", "text": "s3cret-result"}}, "isError": r.Params.Name == "refuse",
		}
	default:
		return map[string]any{}
	}
}

// otelVariables are the names of the OpenTelemetry variables that the process has.
func otelVariables() string {
	var names []string
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}
