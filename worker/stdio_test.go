package worker

import (
	"context"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/worker/keeper"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

// hangLimit is how long a test waits for something before it fails; it decides
// nothing else.
const hangLimit = 60 * time.Second

// dialed is one connection, or what there is of one.
type dialed struct {
	*conn
	*dialing
	err error
}

// dialTo connects to a server; the test closes the connection at its end.
func dialTo(t *testing.T, d events.Definition, limit time.Duration) dialed {
	t.Helper()
	life := t.Context()
	x := dialed{dialing: &dialing{
		definition: &d, env: os.LookupEnv, spawner: keeper.Direct{}, allowed: func() error { return nil },
	}}
	ctx, cancel := context.WithTimeout(life, limit)
	defer cancel()
	x.conn, x.err = x.connect(ctx, life)
	t.Cleanup(func() {
		if x.dialing.link != nil {
			x.dialing.link.Kill()
			wait(t, x.dialing.link.gone, "the connection to be gone")
		}
	})
	return x
}

// mustDial is dialTo for servers that are well.
func mustDial(t *testing.T, d events.Definition) dialed {
	t.Helper()
	x := dialTo(t, d, hangLimit)
	if x.err != nil {
		t.Fatalf("connect: %v", x.err)
	}
	return x
}

func wait(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(hangLimit):
		t.Fatalf("waited %s for %s", hangLimit, what)
	}
}

// tool calls a tool and returns what was on the wire.
func (d dialed) tool(ctx context.Context, name, arguments string) (*exchange, error) {
	x := &exchange{}
	return x, d.callTool(ctx, name, jsontext.Value(arguments), nil, x)
}

// text returns the text of a result.
func text(t *testing.T, x *exchange) string {
	t.Helper()
	var r struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if err := json.Unmarshal(x.result, &r); err != nil || len(r.Content) != 1 {
		t.Fatalf("result %s: %v", x.result, err)
	}
	return r.Content[0].Text
}

func TestStdioConnectsListsAndCalls(t *testing.T) {
	record := mcptest.NewRecord(t)
	d := mustDial(t, mcptest.Script{Tools: mcptest.Special, Record: record.Path()}.Definition(t))
	if d.hello.revision != "2025-11-25" || d.hello.stateless || !d.hello.offers[Tools] || d.hello.instructions != "be kind" {
		t.Errorf("hello %+v", d.hello)
	}
	if !strings.Contains(string(d.hello.serverInfo), `"mcptest"`) || !strings.Contains(string(d.hello.capabilities), "listChanged") {
		t.Errorf("server info %s, capabilities %s", d.hello.serverInfo, d.hello.capabilities)
	}
	raw, err := d.pages(t.Context(), &sections[Tools][0], &exchange{})
	if err != nil || len(raw) != len(mcptest.Special) {
		t.Fatalf("%d tools, %v", len(raw), err)
	}
	if !strings.Contains(string(raw[0]), `"$schema":"https://json-schema.org/draft/2020-12/schema"`) {
		t.Errorf("the schema was changed: %s", raw[0])
	}
	x, err := d.tool(t.Context(), "echo", `{"n":9007199254740993,"b":1,"a":2}`)
	if err != nil || text(t, x) != `{"n":9007199254740993,"b":1,"a":2}` {
		t.Errorf("echo: %s, %v", x.result, err)
	}
	d.conn.Shut(5 * time.Second)
	wait(t, d.conn.gone, "the end of the process")
	if how := d.conn.How(); how != "closed" || len(record.Running()) != 0 {
		t.Errorf("ended %s; still there: %v", how, record.Running())
	}
}

// The bytes are what counts: results and errors that the library's types cannot
// hold arrive whole.
func TestStdioKeepsRawAnswers(t *testing.T) {
	d := mustDial(t, mcptest.Script{Tools: mcptest.Special}.Definition(t))
	x, err := d.tool(t.Context(), "odd", "")
	if err != nil || string(x.result) != mcptest.OddResult {
		t.Errorf("odd: %s, %v", x.result, err)
	}
	x, err = d.tool(t.Context(), "rpc-error", "{}")
	if err == nil || x.failure == nil || x.failure.Code != -32050 || string(x.failure.Data) != `{"retryAfter":9007199254740993}` {
		t.Errorf("rpc-error: %+v, %v", x.failure, err)
	}
	x, err = d.tool(t.Context(), "fail", "{}")
	if err != nil || !strings.Contains(string(x.result), `"isError":true`) { // R20
		t.Errorf("fail: %s, %v", x.result, err)
	}
	x, err = d.tool(t.Context(), "big", `{"bytes":4000000}`)
	if err != nil || len(text(t, x)) != 4_000_000 {
		t.Errorf("big: %d bytes, %v", len(x.result), err)
	}
}

// R31, case E8
func TestStdioAnswersTheServer(t *testing.T) {
	def := mcptest.Script{Tools: mcptest.Special}.Definition(t)
	def.Roots = []string{"file:///work"}
	d := mustDial(t, def)
	for range 2 { // with ids of both types for each
		x, err := d.tool(t.Context(), "ask", "{}")
		want := `{"ping":{},"roots/list":{"roots":[{"uri":"file:///work"}]},` +
			`"sampling/createMessage":{"code":-32601,"message":"method not found: sampling/createMessage"}}`
		if err != nil || text(t, x) != want {
			t.Errorf("answers %s, %v", x.result, err)
		}
	}
}

// case D1: what is no message is skipped and counted.
func TestStdioSkipsNoise(t *testing.T) {
	d := mustDial(t, mcptest.Script{
		Tools: mcptest.Special,
		Noise: []string{"\ufeffServer v1 🖥", "", `{"level":"info"}`, "42", "\x1b[32mready\x1b[0m"},
	}.Definition(t))
	if _, err := d.tool(t.Context(), "noise", "{}"); err != nil {
		t.Error(err)
	}
	if got := d.dialing.link.strays.String(); !strings.HasPrefix(got, "5 lines on stdout are no MCP messages, first: Server v1 🖥 | {") {
		t.Errorf("noise: %s", got)
	}
}

func TestStdioGivesUpOnNoise(t *testing.T) {
	d := dialTo(t, mcptest.Script{Noise: slices.Repeat([]string{"tick"}, maxStrays)}.Definition(t), hangLimit)
	end := d.ending(d.err, 0)
	if end.code != events.StdoutNotJSONRPC || !strings.Contains(end.message, "tick") || end.retry {
		t.Errorf("ended with %+v", end)
	}
}

// case D5
func TestStdioBoundsFrames(t *testing.T) {
	t.Parallel()
	d := dialTo(t, mcptest.Script{Flood: true}.Definition(t), hangLimit)
	if end := d.ending(d.err, 0); end.code != events.FrameTooLarge {
		t.Errorf("ended with %+v", end)
	}
}

// case I1: an idle process that dies is noticed, with its signal.
func TestStdioNoticesDeath(t *testing.T) {
	t.Parallel()
	d := mustDial(t, mcptest.Script{}.Definition(t))
	if err := syscall.Kill(d.conn.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, d.conn.gone, "the end of the connection")
	if end := d.conn.End(); end.code != events.Killed || end.signal != "SIGKILL" || end.exit != nil {
		t.Errorf("ended with %+v", end)
	}
}

// case I2: calls in flight end with the process, and say why.
func TestStdioDeathEndsCalls(t *testing.T) {
	d := mustDial(t, mcptest.Script{Tools: mcptest.Special}.Definition(t))
	hung := make(chan error, 12)
	for range cap(hung) {
		go func() {
			_, err := d.tool(t.Context(), "sleep", `{"ms":3600000}`)
			hung <- err
		}()
	}
	if x, err := d.tool(t.Context(), "echo", "{}"); err != nil { // the others are under way
		t.Fatalf("%s, %v", x.result, err)
	}
	x, err := d.tool(t.Context(), "die", "{}")
	var end ending
	if !errors.As(err, &end) || end.code != events.Exited || *end.exit != 3 || !strings.Contains(end.stderr, "last words") {
		t.Errorf("die: %v", err)
	}
	if !x.written.Load() {
		t.Error("the call counts as not sent")
	}
	for range cap(hung) {
		if err := <-hung; !errors.As(err, &end) {
			t.Errorf("a call ended with %v", err)
		}
	}
	x, err = d.tool(t.Context(), "echo", "{}")
	if !errors.Is(err, errNotWritten) || x.written.Load() {
		t.Errorf("a call on a dead connection: %v", err)
	}
}

// case I2: an answer that came before the end counts.
func TestStdioLastWords(t *testing.T) {
	for range 10 {
		d := mustDial(t, mcptest.Script{Tools: mcptest.Special}.Definition(t))
		if x, err := d.tool(t.Context(), "bye", "{}"); err != nil || string(x.result) != `{"content":[]}` {
			t.Fatalf("the last answer: %s, %v", x.result, err)
		}
		wait(t, d.conn.gone, "the end of the connection")
		if end := d.conn.End(); end.code != events.Exited || *end.exit != 0 {
			t.Errorf("ended with %+v", end)
		}
	}
}

// case J1: a helper that keeps stdout open hides nothing and survives
// nothing.
func TestStdioHelperDies(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]mcptest.Script{
		"meek":     {Tools: mcptest.Special, Helper: true},
		"stubborn": {Tools: mcptest.Special, Helper: true, Stubborn: true},
	} {
		t.Run(name, func(t *testing.T) {
			record := mcptest.NewRecord(t)
			s.Record = record.Path()
			d := mustDial(t, s.Definition(t))
			if n := len(record.Started()); n != 2 {
				t.Fatalf("%d processes", n)
			}
			if _, err := d.tool(t.Context(), "die", "{}"); err == nil {
				t.Error("no error")
			}
			wait(t, d.conn.gone, "the end of the group")
			if end := d.conn.End(); end.code != events.Exited || *end.exit != 3 {
				t.Errorf("ended with %+v", end)
			}
		})
	}
}

// R33
func TestStdioClose(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script mcptest.Script
		grace  time.Duration // 0: by force
		how    string
	}{
		"in peace":           {mcptest.Script{}, time.Minute, "closed"},
		"with a mute helper": {mcptest.Script{Helper: true}, time.Minute, "closed"},
		"ignores the end":    {mcptest.Script{KeepOn: true}, 5 * time.Second, "terminated"},
		"ignores TERM":       {mcptest.Script{Stubborn: true}, time.Second, "killed"},
		"with a helper":      {mcptest.Script{Helper: true, Stubborn: true}, time.Second, "killed"},
		"by force":           {mcptest.Script{Stubborn: true, Helper: true}, 0, "killed"},
		"by force, a meek":   {mcptest.Script{KeepOn: true}, 0, "killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record := mcptest.NewRecord(t)
			tc.script.Record = record.Path()
			d := mustDial(t, tc.script.Definition(t))
			if tc.grace == 0 {
				d.conn.Kill()
			} else {
				d.conn.Shut(tc.grace)
				d.conn.Shut(time.Hour) // the first word counts
			}
			wait(t, d.conn.gone, "the end of the group")
			if how := d.conn.How(); how != tc.how {
				t.Errorf("ended %s, want %s", how, tc.how)
			}
			d.conn.Kill() // idempotent, also when all is over
			_ = d.conn.wire.Close()
		})
	}
}

// T6, case D7: a process that does not read neither holds up other calls
// beyond their limits nor its own end.
func TestStdioDeafProcess(t *testing.T) {
	t.Parallel()
	record := mcptest.NewRecord(t)
	d := mustDial(t, mcptest.Script{Tools: mcptest.Special, Deaf: true, Stubborn: true, Record: record.Path()}.Definition(t))
	if _, err := d.pages(t.Context(), &sections[Tools][0], &exchange{}); err != nil {
		t.Fatal(err)
	}
	big := `{"x":"` + strings.Repeat("x", 1<<20) + `"}`
	written := false
	for end := time.Now().Add(hangLimit); !written && time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		x, err := d.tool(ctx, "echo", big)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a call that fills the pipe: %v", err)
		}
		written = x.written.Load() // else encoding it took all of the time
	}
	// The message is torn, so the connection is over.
	wait(t, d.conn.over, "the connection to be over")
	if end := d.conn.End(); end.code != events.ConnectionLost || !strings.Contains(end.message, "middle of a message") {
		t.Errorf("ended with %+v", end)
	}
	wait(t, d.conn.gone, "the end of the process")
}

// A call that ends early tells the server so, with the number that the server
// knows it by.
func TestStdioCancels(t *testing.T) {
	record := mcptest.NewRecord(t)
	d := mustDial(t, mcptest.Script{Tools: mcptest.Special, Record: record.Path()}.Definition(t))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := d.tool(ctx, "sleep", `{"ms":3600000}`)
		done <- err
	}()
	eventually(t, "the call to arrive", func() bool { return record.Has("call sleep") })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	eventually(t, "the server to be told", func() bool { return record.Has("cancelled") })
	if x, err := d.tool(t.Context(), "echo", "{}"); err != nil {
		t.Errorf("the next call: %s, %v", x.result, err)
	}
}

// case I2: a process that exits at once fails with its exit, whether it is
// noticed by reading, by writing or by waiting.
func TestStdioExitAtOnce(t *testing.T) {
	for range 20 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for range 20 {
				d := dialTo(t, events.Definition{Command: "sh", Args: []string{"-c", "exec <&-; exit 3"}}, hangLimit)
				end := d.ending(d.err, 0)
				if end.code != events.StartupCrash || end.exit == nil || *end.exit != 3 {
					t.Errorf("ended with %+v", end)
				}
			}
		})
	}
}

// A process may close its stdin and go on: then that is the end, and nothing
// was sent.
func TestStdioClosedStdin(t *testing.T) {
	t.Parallel()
	r := &resolved{command: "sh", args: []string{"-c", "exec <&-; echo closed >&2; exec sleep 600"}}
	p, err := spawn(t.Context(), keeper.Direct{}, r, environ(os.LookupEnv, nil, nil), "closed")
	if err != nil {
		t.Fatal(err)
	}
	s := newStdio(t.Context(), p, &tail{}, nil, func(string, jsontext.Value) {})
	defer func() {
		s.Kill()
		wait(t, s.gone, "the end of the process")
	}()
	eventually(t, "the stdin to be closed", func() bool { return s.stderr.String() != "" })
	x := &exchange{}
	err = s.send(t.Context(), []byte("{}\n"), x)
	var end ending
	if !errors.As(err, &end) || end.code != events.ConnectionLost || end.message != "the process closed its stdin" || end.exit != nil {
		t.Errorf("ended with %v", err)
	}
	if !errors.Is(err, errNotWritten) || x.written.Load() {
		t.Errorf("the message counts as sent: %v", err)
	}
}

// eventually polls for what another process does, which nothing announces.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(hangLimit); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %s for %s", hangLimit, what)
		}
	}
}

// case I2: an answer and the end may be noticed in the same instant.
func TestStdioAnswerBeatsEnd(t *testing.T) {
	for range 100 {
		s := &stdio{lifeline: newLifeline(), out: make(chan *outgoing), pending: make(map[int64]chan *frame)}
		go func() {
			o := <-s.out
			s.take(&frame{ID: []byte("1"), Result: []byte("{}")})
			s.finish(newEnding(events.Exited, ""))
			close(o.done)
		}()
		if _, err := s.SendRequest(t.Context(), transport.JSONRPCRequest{Method: "m"}); err != nil {
			t.Fatal(err)
		}
	}
}
