package mcptest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// behaviour is a server built from a script.
type behaviour struct {
	script *Script
	server *server.MCPServer
	out    *output // of a process, or nil

	asked   atomic.Int64
	listed  atomic.Bool // by a process
	mu      sync.Mutex  // guards answers
	answers map[string]chan jsontext.Value
}

// message is what interceptors look at.
type message struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  jsontext.Value `json:"error"`
}

func (s *Script) build(out *output) *behaviour {
	b := &behaviour{
		script: s, out: out, answers: make(map[string]chan jsontext.Value),
		server: server.NewMCPServer("mcptest", "1.0.0", append(s.capabilities(), server.WithInstructions("be kind"))...),
	}
	for _, name := range s.Tools {
		b.addTool(name)
	}
	b.offer()
	return b
}

func (b *behaviour) addTool(name string) {
	schema := []byte(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","minProperties":0}`)
	b.server.AddTool(mcp.NewToolWithRawSchema(name, "the tool "+name, schema), b.handler(name))
}

// arguments of the special tools.
type arguments struct {
	Bytes int    `json:"bytes"`
	Ms    int    `json:"ms"`
	Times int    `json:"times"`
	Text  string `json:"text"`
	What  string `json:"what"`
}

func (b *behaviour) handler(name string) server.ToolHandlerFunc {
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		raw := []byte(r.Params.RawArguments)
		var a arguments
		if len(raw) > 0 {
			_ = json.Unmarshal(raw, &a) // echo takes anything
		}
		b.script.note("call %s", name)
		text, err := b.call(ctx, name, raw, &a, r.Params.Meta)
		switch {
		case err != nil:
			return nil, err
		case name == "fail":
			return mcp.NewToolResultError("the tool failed"), nil
		}
		return mcp.NewToolResultText(text), nil
	}
}

func (b *behaviour) call(ctx context.Context, name string, raw []byte, a *arguments, meta *mcp.Meta) (string, error) {
	switch name {
	case "env":
		var names []string
		for _, v := range os.Environ() {
			name, _, _ := strings.Cut(v, "=")
			names = append(names, name)
		}
		slices.Sort(names)
		return strings.Join(names, " "), nil
	case "big":
		return strings.Repeat("b", a.Bytes), nil
	case "sleep":
		select {
		case <-time.After(time.Duration(a.Ms) * time.Millisecond):
		case <-ctx.Done():
			b.script.note("cancelled")
			return "", ctx.Err()
		}
	case "die":
		fmt.Fprintln(os.Stderr, "fatal: last words")
		b.script.exit(3, "die")
	case "grow":
		b.grow(a.What, a.Times)
	case "progress":
		for i := range a.Times {
			time.Sleep(time.Duration(a.Ms) * time.Millisecond)
			if err := b.progress(ctx, meta, i+1, a.Times); err != nil {
				return "", err
			}
		}
	case "tell":
		fmt.Fprint(os.Stderr, strings.Repeat(a.Text, max(a.Times, 1)))
	case "log":
		b.server.SendNotificationToAllClients("notifications/message", map[string]any{
			"level": "warning", "logger": "mcptest", "data": a.Text,
		})
	case "ask":
		return b.ask(ctx)
	case "noise":
		fmt.Fprintln(b.out, "chatter in between")
	case "note":
		b.script.note("note %s", a.Text)
		time.Sleep(time.Duration(a.Ms) * time.Millisecond)
	}
	return string(raw), nil
}

// progress writes to a process's own output, because the library would send it
// when it pleases, perhaps after the answer.
func (b *behaviour) progress(ctx context.Context, meta *mcp.Meta, n, total int) error {
	params := map[string]any{"progressToken": meta.ProgressToken, "progress": n, "total": total}
	if b.out == nil {
		return b.server.SendNotificationToClient(ctx, "notifications/progress", params)
	}
	text, err := json.Marshal(params, json.Deterministic(true))
	fmt.Fprintf(b.out, `{"jsonrpc":"2.0","method":"notifications/progress","params":%s}`+"\n", text)
	return err
}

// ask asks the client, with ids of both kinds, and returns its answers.
func (b *behaviour) ask(ctx context.Context) (string, error) {
	answers := make(map[string]jsontext.Value)
	for _, method := range []string{"ping", "roots/list", "sampling/createMessage"} {
		n := b.asked.Add(1)
		id := strconv.FormatInt(n+1000, 10)
		if n%2 == 0 {
			id = `"ask-` + id + `"`
		}
		c := make(chan jsontext.Value, 1)
		b.mu.Lock()
		b.answers[id] = c
		b.mu.Unlock()
		fmt.Fprintf(b.out, `{"jsonrpc":"2.0","id":%s,"method":"%s"}`+"\n", id, method)
		select {
		case answers[method] = <-c:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	text, err := json.Marshal(answers, json.Deterministic(true))
	return string(text), err
}

// intercept takes the messages that the script answers itself; a nil answer is
// none.
func (b *behaviour) intercept(line []byte) (answer []byte, taken bool) {
	var m message
	if json.Unmarshal(line, &m) != nil {
		return nil, false
	}
	s := b.script
	if s.Silent && b.listed.Load() {
		return nil, true
	}
	switch m.Method {
	case "initialize":
		return b.initialize(&m)
	case "ping":
		s.note("ping")
		if s.Ping == "unknown" {
			return failure(m.ID, `{"code":-32601,"message":"no such method"}`), true
		}
		return nil, s.Ping == "ignored"
	case "tools/list":
		if b.listed.Swap(true) {
			s.note("list again")
		}
		switch {
		case s.UnlistedTools:
			return failure(m.ID, `{"code":-32603,"message":"no list today"}`), true
		case s.Raw != nil:
			return b.listRaw(&m, "tools", s.Raw), true
		}
	case "tools/call":
		return b.callRaw(&m)
	case "":
		b.mu.Lock()
		defer b.mu.Unlock()
		if c, ok := b.answers[string(m.ID)]; ok {
			delete(b.answers, string(m.ID))
			if m.Error != nil {
				c <- m.Error
			} else {
				c <- m.Result
			}
			return nil, true
		}
	}
	return b.interceptOffers(&m)
}

func (b *behaviour) initialize(m *message) ([]byte, bool) {
	s := b.script
	time.Sleep(time.Duration(s.DelayMs) * time.Millisecond)
	switch {
	case s.Mute:
		return nil, true
	case s.Refuse != nil:
		return failure(m.ID, string(s.Refuse)), true
	case s.Revision != "":
		return success(m.ID, `{"protocolVersion":"`+s.Revision+`","capabilities":{},"serverInfo":{"name":"mcptest","version":"1"}}`), true
	}
	return nil, false
}

func (b *behaviour) listRaw(m *message, member string, raw []jsontext.Value) []byte {
	s := b.script
	var p struct {
		Cursor string `json:"cursor"`
	}
	_ = json.Unmarshal(m.Params, &p) // absent at first
	from, _ := strconv.Atoi(p.Cursor)
	to := len(raw)
	next := ""
	if s.PageSize > 0 && from+s.PageSize < to {
		to = from + s.PageSize
		next = `,"nextCursor":"` + strconv.Itoa(to) + `"`
	}
	if s.CursorLoop {
		next = `,"nextCursor":"0"`
	}
	var items []string
	for _, t := range raw[from:to] {
		items = append(items, string(t))
	}
	return success(m.ID, `{"`+member+`":[`+strings.Join(items, ",")+`]`+next+`}`)
}

// callRaw answers the calls whose answers no library would write.
func (b *behaviour) callRaw(m *message) ([]byte, bool) {
	var p struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return nil, false
	}
	if b.script.OneByOne {
		b.script.note("call %s", p.Name)
		time.Sleep(time.Duration(p.Arguments.Ms) * time.Millisecond)
	}
	switch p.Name {
	case "rpc-error":
		return failure(m.ID, `{"code":-32050,"message":"the server is full","data":{"retryAfter":9007199254740993}}`), true
	case "bye":
		fmt.Fprintf(b.out, "%s\n", success(m.ID, `{"content":[]}`))
		b.script.exit(0, "bye")
	case "odd":
		return success(m.ID, OddResult), true
	}
	return nil, false
}

// OddResult is what the tool odd returns: valid MCP, with a kind of content, a
// number and members that typed values lose.
const OddResult = `{"content":[{"type":"hologram","data":"…"}],"structuredContent":{"n":9007199254740993,"x":1.0},"vendor":{"a":1}}`

func success(id jsontext.Value, result string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + `}`)
}

func failure(id jsontext.Value, e string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"error":` + e + `}`)
}

// Special are the names of the tools that do something special.
var Special = []string{
	"ask", "big", "bye", "die", "echo", "env", "fail", "grow", "log", "noise", "note", "odd", "progress", "rpc-error", "sleep", "tell",
}
