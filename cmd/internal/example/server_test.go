package example

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// conversation is a client of a running server, one request at a time.
type conversation struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
	id  int
	// told are the notifications so far.
	told []message
}

type message struct {
	ID     int            `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  jsontext.Value `json:"error"`
}

func converse(t *testing.T) *conversation {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := Serve(t.Context(), "1.2.3", inR, outW)
		_ = outW.Close() // never fails
		done <- err
	}()
	c := &conversation{t: t, in: inW, out: bufio.NewScanner(outR)}
	c.out.Buffer(nil, 1<<20)
	t.Cleanup(func() {
		_ = inW.Close()    // never fails
		for c.out.Scan() { // the server may still be writing
		}
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	c.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}`)
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *conversation) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *conversation) next() message {
	c.t.Helper()
	if !c.out.Scan() {
		c.t.Fatalf("the server's output ended: %v", c.out.Err())
	}
	var m message
	if err := json.Unmarshal(c.out.Bytes(), &m); err != nil {
		c.t.Fatalf("the server wrote %q: %v", c.out.Bytes(), err)
	}
	return m
}

func (c *conversation) ask(method, params string) jsontext.Value {
	c.t.Helper()
	c.id++
	c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.id, method, params))
	for {
		m := c.next()
		switch {
		case m.Method != "":
			c.told = append(c.told, m)
		case m.ID != c.id:
			c.t.Fatalf("answer %d to request %d", m.ID, c.id)
		case m.Error != nil:
			c.t.Fatalf("%s: %s", method, m.Error)
		default:
			return m.Result
		}
	}
}

type toolResult struct {
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	IsError bool `json:"isError"`
}

func (c *conversation) call(name, arguments string) toolResult {
	c.t.Helper()
	var r toolResult
	answer := c.ask("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{"progressToken":7}}`, name, arguments))
	if err := json.Unmarshal(answer, &r); err != nil || len(r.Content) != 1 {
		c.t.Fatalf("%s answered %s: %v", name, answer, err)
	}
	return r
}

func TestTools(t *testing.T) {
	c := converse(t)
	for _, tt := range []struct{ tool, arguments, want string }{
		{
			"text_stats", `{"text":"One, two. Threefold!\nEnd"}`,
			`{"characters":24,"bytes":24,"words":4,"lines":2,"sentences":2,"longestWord":"Threefold"}`,
		},
		{"text_stats", `{"text":""}`, `{"characters":0,"bytes":0,"words":0,"lines":0,"sentences":0,"longestWord":""}`},
		{
			"time_in_zone", `{"zone":"Europe/Berlin","at":"2026-07-01T12:00:00Z"}`,
			`{"time":"2026-07-01T14:00:00+02:00","zone":"Europe/Berlin","abbreviation":"CEST","weekday":"Wednesday","daylightSaving":true}`,
		},
		{"format_json", `{"json":"{ \"b\":1, \"a\":[1 ,2]}","compact":true}`, `{"json":"{\"b\":1,\"a\":[1,2]}"}`},
		{"query_json", `{"json":"{\"a\":[{\"b/c\":1.50}]}","pointer":"/a/0/b~1c"}`, `{"json":"1.50"}`},
		{"query_json", `{"json":"[1]","pointer":""}`, `{"json":"[1]"}`},
		{"convert_units", `{"value":212,"from":"F","to":"C"}`, `{"value":100,"unit":"C","quantity":"temperature"}`},
		{"convert_units", `{"value":1,"from":"mi","to":"km"}`, `{"value":1.609344,"unit":"km","quantity":"length"}`},
		{"random_choice", `{"items":["a","b","c"],"count":3,"seed":1}`, `{"chosen":["c","a","b"]}`},
		{"count_slowly", `{"steps":2,"delayMs":0}`, `{"steps":2}`},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			r := c.call(tt.tool, tt.arguments)
			if diff := cmp.Diff(tt.want, r.Content[0].Text); diff != "" || r.IsError {
				t.Errorf("isError %v, (-want +got):\n%s", r.IsError, diff)
			}
		})
	}
}

func TestToolErrors(t *testing.T) {
	c := converse(t)
	for _, tt := range []struct{ tool, arguments, want string }{
		{"text_stats", `{}`, "arguments of text_stats: text is missing"},
		{"text_stats", `{"x":1}`, "arguments of text_stats: text is missing; x is no argument of this tool"},
		{"text_stats", `{"text":"a","more":1}`, "more is no argument of this tool"},
		{"random_uuid", `{"count":"7"}`, "count must be a whole number, not a string"},
		{"random_choice", `{"items":["a",7]}`, "items[1] must be a string"},
		{"time_in_zone", `{"zone":"Mars/Base"}`, `unknown time zone "Mars/Base"`},
		{"time_in_zone", `{"zone":"UTC","at":"noon"}`, "RFC 3339"},
		{"format_json", `{"json":"{"}`, "not JSON"},
		{"query_json", `{"json":"[1]","pointer":"/1"}`, "nothing is at"},
		{"query_json", `{"json":"1","pointer":"x"}`, "no JSON pointer"},
		{"convert_units", `{"value":1,"from":"m","to":"kg"}`, "m is length and kg is mass"},
		{"random_choice", `{"items":["a"],"count":2}`, "cannot be picked"},
		{"add_tool", `{"name":"Bad Name","answer":"x"}`, "name"},
		{"add_tool", `{"name":"text_stats","answer":"x"}`, "has a tool of that name"},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			r := c.call(tt.tool, tt.arguments)
			if !r.IsError || !strings.Contains(r.Content[0].Text, tt.want) {
				t.Errorf("got isError %v, %q; want an error with %q", r.IsError, r.Content[0].Text, tt.want)
			}
		})
	}
}

func TestUUIDs(t *testing.T) {
	for _, version := range []string{"4", "7"} {
		made, err := makeUUIDs(3, version)
		if err != nil {
			t.Fatal(err)
		}
		seen := make(map[string]bool)
		for _, id := range made.UUIDs {
			if len(id) != 36 || id[14:15] != version {
				t.Errorf("%s is no UUID of version %s", id, version)
			}
			seen[id] = true
		}
		if len(seen) != 3 {
			t.Errorf("got %d distinct ids, want 3", len(seen))
		}
	}
}

func TestProgress(t *testing.T) {
	c := converse(t)
	c.call("count_slowly", `{"steps":3,"delayMs":20}`)
	// Notifications travel apart from answers: the last one may come later.
	for len(c.told) < 3 {
		c.told = append(c.told, c.next())
	}
	for i, m := range c.told {
		want := fmt.Sprintf(`{"progress":%d,"progressToken":7,"total":3}`, i+1)
		if m.Method != "notifications/progress" || string(m.Params) != want {
			t.Errorf("got %s %s, want notifications/progress %s", m.Method, m.Params, want)
		}
	}
}

func TestAddToolChangesTheList(t *testing.T) {
	c := converse(t)
	before := strings.Count(string(c.ask("tools/list", `{}`)), `"inputSchema"`)
	c.call("add_tool", `{"name":"motto","answer":"festina lente"}`)
	for len(c.told) < 1 {
		c.told = append(c.told, c.next())
	}
	if got := c.told[0].Method; got != "notifications/tools/list_changed" {
		t.Errorf("told of %s, want the changed list", got)
	}
	if after := strings.Count(string(c.ask("tools/list", `{}`)), `"inputSchema"`); after != before+1 {
		t.Errorf("%d tools, then %d; want one more", before, after)
	}
	if got := c.call("motto", `{}`).Content[0].Text; got != "festina lente" {
		t.Errorf("the new tool answered %q", got)
	}
}

func TestResourceAndPrompt(t *testing.T) {
	c := converse(t)
	if got := string(c.ask("resources/read", `{"uri":"example://guide"}`)); !strings.Contains(got, "# The example server") {
		t.Errorf("guide: %s", got)
	}
	if got := string(c.ask("prompts/get", `{"name":"review_text","arguments":{"text":"hello"}}`)); !strings.Contains(got, "hello") {
		t.Errorf("prompt: %s", got)
	}
}

func TestCountStopsWhenCancelled(t *testing.T) {
	c := converse(t)
	c.id++
	c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"count_slowly",`+
		`"arguments":{"steps":1000,"delayMs":50},"_meta":{"progressToken":1}}}`, c.id))
	c.next() // the first step
	c.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, c.id))
	for {
		m := c.next()
		if m.ID != c.id {
			continue // steps before the cancellation arrived
		}
		if got := string(m.Result) + string(m.Error); !strings.Contains(got, "cancelled after") {
			t.Errorf("the cancelled call was answered %s", got)
		}
		return
	}
}
