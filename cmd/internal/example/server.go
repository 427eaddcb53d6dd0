// Package example is an MCP server that needs nothing: no key, no network, no
// file. It serves the example of the quick start and the tests that want a real
// child process.
//
// It offers tools over text, time, JSON, units and chance; count_slowly, which
// reports progress and can be cancelled; add_tool, which adds a tool while it
// runs, so that clients are told of a changed list; one resource and one prompt.
// All but add_tool only read.
package example

import (
	"context"
	"io"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/toolfleet/toolfleet/cmd/internal/arguments"
)

// Name is what the server calls itself.
const Name = "toolfleet-example"

// callsAtOnce is how many calls run in parallel: above what one agent has in
// flight, so that slow ones do not hold up the others.
const callsAtOnce = 64

// Serve answers MCP requests, one JSON text a line, until in ends or ctx does.
func Serve(ctx context.Context, version string, in io.Reader, out io.Writer) error {
	err := listen(ctx, newServer(version), in, out)
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return errors.Wrap(err, "serve MCP on the standard streams")
}

func listen(ctx context.Context, s *server.MCPServer, in io.Reader, out io.Writer) error {
	stdio := server.NewStdioServer(s)
	server.WithWorkerPoolSize(callsAtOnce)(stdio)
	return stdio.Listen(ctx, in, out)
}

func newServer(version string) *server.MCPServer {
	var s *server.MCPServer
	s = server.NewMCPServer(Name, version,
		server.WithInstructions("Small tools that work offline: text, time, JSON, units, chance."),
		server.WithToolCapabilities(true),
		server.WithResourceCapabilities(false, false),
		server.WithPromptCapabilities(false),
		server.WithToolHandlerMiddleware(func(next server.ToolHandlerFunc) server.ToolHandlerFunc { return checked(s, next) }),
		server.WithStrictInputSchemaDefault(),
		server.WithRecovery(),
	)
	s.AddTools(textStats(), timeInZone(), randomUUID(), randomChoice(), formatJSON(), queryJSON(), convertUnits(),
		countSlowly(s), addTool(s))
	s.AddResource(mcp.NewResource(guideURI, "guide",
		mcp.WithResourceDescription("What this server's tools do, in a few lines."),
		mcp.WithMIMEType("text/markdown")), readGuide)
	s.AddPrompt(mcp.NewPrompt("review_text",
		mcp.WithPromptDescription("Ask for a review of a text, with its figures from text_stats."),
		mcp.WithArgument("text", mcp.ArgumentDescription("The text to review."), mcp.RequiredArgument())), reviewText)
	return s
}

// checked answers calls whose arguments are not as the tool's schema wants them
// with what is wrong, in words.
func checked(s *server.MCPServer, next server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if tool := s.GetTool(r.Params.Name); tool != nil {
			if err := check(&tool.Tool, r.GetRawArguments()); err != nil {
				return mcp.NewToolResultErrorf("arguments of %s: %v", r.Params.Name, err), nil
			}
		}
		return next(ctx, r)
	}
}

func check(tool *mcp.Tool, given any) error {
	if given == nil {
		given = map[string]any{}
	}
	schema, err := json.Marshal(&tool.InputSchema)
	if err != nil {
		return err // unreachable unless a tool's schema is no JSON
	}
	args, err := json.Marshal(given)
	if err != nil {
		return err // unreachable: they came as JSON
	}
	return arguments.Check(schema, args)
}

// reads returns a tool that changes nothing: answer gets the arguments and its
// result goes out both as structured content and as JSON text. An error of
// answer is the tool's own error.
func reads[A, R any](name, title, description string, answer func(context.Context, A) (R, error), options ...mcp.ToolOption) server.ServerTool {
	options = append(options, mcp.WithDescription(description), mcp.WithTitleAnnotation(title),
		mcp.WithReadOnlyHintAnnotation(true), mcp.WithDestructiveHintAnnotation(false),
		mcp.WithOpenWorldHintAnnotation(false), mcp.WithOutputSchema[R]())
	handler := func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args A
		if err := r.BindArguments(&args); err != nil {
			return mcp.NewToolResultErrorf("arguments of %s: %v", name, err), nil
		}
		result, err := answer(ctx, args)
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		return mcp.NewToolResultJSON(result)
	}
	return server.ServerTool{Tool: mcp.NewTool(name, options...), Handler: handler}
}

const (
	guideURI = "example://guide"
	guide    = `# The example server

- text_stats, format_json, query_json: look at text you pass in
- time_in_zone, convert_units: look things up
- random_uuid, random_choice: leave it to chance
- count_slowly: takes its time and reports progress
- add_tool: adds a tool; the list of tools changes while you watch
`
)

func readGuide(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: guideURI, MIMEType: "text/markdown", Text: guide}}, nil
}

func reviewText(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return mcp.NewGetPromptResult("Review a text", []mcp.PromptMessage{
		mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(
			"Measure this text with text_stats, then say what would make it clearer:\n\n"+r.Params.Arguments["text"])),
	}), nil
}
