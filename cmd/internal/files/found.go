package files

import (
	"os"
	"path/filepath"
	"runtime"

	"github.com/toolfleet/toolfleet/controller/discovery"
)

// Found is a configuration file of some program.
type Found struct {
	Path    string
	Program string
	// Servers is how many servers it lists that can be accepted; Err why it
	// cannot be read.
	Servers int
	Err     error
}

// Find looks where programs keep the MCP servers that they use, in a project's
// folder and in the user's, and returns the files that are there.
func Find(project, home string) []Found {
	var found []Found
	for _, place := range places(project, home) {
		if info, err := os.Stat(place.Path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		f, err := discovery.ReadFile(place.Path)
		if place.Err = err; err == nil {
			place.Servers = len(f.Entries)
		}
		found = append(found, place)
	}
	return found
}

func places(project, home string) []Found {
	config := filepath.Join(home, ".config")
	if runtime.GOOS == "darwin" {
		config = filepath.Join(home, "Library", "Application Support")
	}
	return []Found{
		{Path: filepath.Join(project, ".mcp.json"), Program: "Claude Code and others, this project"},
		{Path: filepath.Join(project, "mcp.json"), Program: "this project"},
		{Path: filepath.Join(project, ".cursor", "mcp.json"), Program: "Cursor, this project"},
		{Path: filepath.Join(project, ".vscode", "mcp.json"), Program: "VS Code, this project"},
		{Path: filepath.Join(home, ".claude.json"), Program: "Claude Code"},
		{Path: filepath.Join(config, "Claude", "claude_desktop_config.json"), Program: "Claude Desktop"},
		{Path: filepath.Join(home, ".cursor", "mcp.json"), Program: "Cursor"},
		{Path: filepath.Join(config, "Code", "User", "mcp.json"), Program: "VS Code"},
		{Path: filepath.Join(home, ".codeium", "windsurf", "mcp_config.json"), Program: "Windsurf"},
		{Path: filepath.Join(home, ".gemini", "settings.json"), Program: "Gemini CLI"},
	}
}
