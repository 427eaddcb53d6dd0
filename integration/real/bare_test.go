//go:build real

package real

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// listBare returns the tools of a server as they are on the wire, by name,
// from an exchange with no MCP library in between.
func listBare(t *testing.T, s server) map[string]jsontext.Value {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Command, s.Args...)
	cmd.Env = s.environ()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", s.ID, err)
	}
	defer func() {
		in.Close()
		cancel()
		_ = cmd.Wait() // killed above
	}()
	b := &bareClient{t: t, in: in, out: bufio.NewReader(out)}
	b.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bare","version":"1"}}`)
	b.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return b.tools()
}

type bareClient struct {
	t    *testing.T
	in   io.Writer
	out  *bufio.Reader
	last int
}

func (b *bareClient) say(line string) {
	b.t.Helper()
	if _, err := io.WriteString(b.in, line+"\n"); err != nil {
		b.t.Fatal(err)
	}
}

// ask sends a request and returns its result, passing over whatever else the
// server says meanwhile.
func (b *bareClient) ask(method, params string) jsontext.Value {
	b.t.Helper()
	b.last++
	b.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, b.last, method, params))
	for {
		line, err := b.out.ReadBytes('\n')
		if err != nil {
			b.t.Fatalf("%s: %v", method, err)
		}
		var m struct {
			ID     jsontext.Value `json:"id"`
			Method string         `json:"method"`
			Result jsontext.Value `json:"result"`
			Error  jsontext.Value `json:"error"`
		}
		if err := json.Unmarshal(line, &m); err != nil {
			b.t.Fatalf("%s: the server wrote %q: %v", method, line, err)
		}
		switch {
		case m.Method != "" || string(m.ID) != fmt.Sprint(b.last):
			continue
		case m.Error != nil:
			b.t.Fatalf("%s: %s", method, m.Error)
		}
		return m.Result
	}
}

func (b *bareClient) tools() map[string]jsontext.Value {
	b.t.Helper()
	found := make(map[string]jsontext.Value)
	for params := "{}"; ; {
		var page struct {
			Tools      []jsontext.Value `json:"tools"`
			NextCursor string           `json:"nextCursor"`
		}
		if err := json.Unmarshal(b.ask("tools/list", params), &page); err != nil {
			b.t.Fatal(err)
		}
		for _, tool := range page.Tools {
			var named struct {
				Name string `json:"name"`
			}
			if err := json.Unmarshal(tool, &named); err != nil {
				b.t.Fatal(err)
			}
			found[named.Name] = tool
		}
		if page.NextCursor == "" {
			return found
		}
		params = fmt.Sprintf(`{"cursor":%q}`, page.NextCursor)
	}
}
