package discovery_test

import (
	"fmt"

	"github.com/toolfleet/toolfleet/controller/discovery"
)

// One entry that cannot be accepted does not keep the others.
func ExampleParse() {
	r, err := discovery.Parse([]byte(`{
  "mcpServers": {
    // runs anywhere
    "clock": { "command": "clock-mcp", "args": ["--utc"] },
    "docs":  { "type": "streamable-http", "url": "https://docs.example.test/mcp" },
    "typo":  { "command": "x", "args": "--flag" },
  }
}`), "mcp.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range r.Entries {
		fmt.Println(e.Line, e.ID, e.Definition.Transport())
	}
	for _, x := range r.Rejected {
		fmt.Println(x.Line, x.Error())
	}
	// Output:
	// 4 clock stdio
	// 5 docs http
	// 6 server "typo": args must be an array of strings
}
