// Command server is an MCP server of 20 tools that do next to nothing, so that
// what is measured around it is not its own work. It is one on standard streams
// or, with the argument http, over HTTP: then it writes its URL.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const tools = 20

func main() {
	s := server.NewMCPServer("bench", "1", server.WithToolCapabilities(true))
	for i := range tools {
		s.AddTool(mcp.NewTool(fmt.Sprintf("echo_%d", i),
			mcp.WithDescription("Returns its text, and nothing else."),
			mcp.WithString("text", mcp.Description("The text to return."), mcp.Required()),
			mcp.WithReadOnlyHintAnnotation(true),
		), echo)
	}
	serve := server.ServeStdio
	if len(os.Args) > 1 && os.Args[1] == "http" {
		serve = serveHTTP
	}
	if err := serve(s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveHTTP(s *server.MCPServer, _ ...server.StdioOption) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/mcp\n", l.Addr())
	return http.Serve(l, server.NewStreamableHTTPServer(s))
}

func echo(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	text, err := r.RequireString("text")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	return mcp.NewToolResultText(text), nil
}
