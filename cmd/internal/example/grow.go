package example

import (
	"context"
	"regexp"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// mostAdded bounds what add_tool can add.
const mostAdded = 100

var toolName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// addTool returns a tool that adds tools to the server, or replaces those that
// it added; the server announces the changed list.
func addTool(s *server.MCPServer) server.ServerTool {
	var mu sync.Mutex
	added := make(map[string]bool) // guarded by mu
	admit := func(name string) string {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case !toolName.MatchString(name):
			return "name: use a lower-case letter, then letters, digits and _, at most 64"
		case !added[name] && s.GetTool(name) != nil:
			return "the server has a tool of that name"
		case !added[name] && len(added) == mostAdded:
			return "no more tools can be added"
		}
		added[name] = true
		return ""
	}
	tool := mcp.NewTool("add_tool",
		mcp.WithDescription("Adds a tool to this server that answers with a fixed text. The list of tools changes at once."),
		mcp.WithTitleAnnotation("Add a tool"), mcp.WithReadOnlyHintAnnotation(false),
		mcp.WithDestructiveHintAnnotation(false), mcp.WithIdempotentHintAnnotation(true),
		mcp.WithOpenWorldHintAnnotation(false),
		mcp.WithString("name", mcp.Required(), mcp.Description("The new tool's name."), mcp.Pattern(toolName.String())),
		mcp.WithString("answer", mcp.Required(), mcp.Description("What the new tool answers.")))
	return server.ServerTool{Tool: tool, Handler: func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		name := r.GetString("name", "")
		if problem := admit(name); problem != "" {
			return mcp.NewToolResultError(problem), nil
		}
		s.AddTools(fixed(name, r.GetString("answer", "")))
		return mcp.NewToolResultText("added " + name), nil
	}}
}

func fixed(name, answer string) server.ServerTool {
	return server.ServerTool{
		Tool: mcp.NewTool(name, mcp.WithDescription("Answers with the text it was added with."),
			mcp.WithReadOnlyHintAnnotation(true), mcp.WithDestructiveHintAnnotation(false),
			mcp.WithOpenWorldHintAnnotation(false)),
		Handler: func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(answer), nil
		},
	}
}
