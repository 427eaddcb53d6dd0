package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
)

// pipes is a client on standard streams.
type pipes struct {
	t      *testing.T
	in     *io.PipeWriter
	out    *bufio.Reader
	ended  chan error
	cancel context.CancelFunc
}

func dial(t *testing.T, g *Gateway) *pipes {
	t.Helper()
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	p := &pipes{t: t, in: inWrite, out: bufio.NewReader(outRead), ended: make(chan error, 1), cancel: cancel}
	go func() { p.ended <- g.ServeStdio(ctx, inRead, outWrite) }()
	return p
}

// greet dials a client that is ready.
func greet(t *testing.T, g *Gateway) *pipes {
	t.Helper()
	p := dial(t, g)
	p.send(request(0, "initialize", hello))
	p.next()
	p.send(initialized)
	return p
}

func (p *pipes) send(lines ...string) {
	p.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(p.in, l+"\n"); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *pipes) next() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSuffix(line, "\n")
}

// ask sends a request and returns what comes next.
func (p *pipes) ask(id any, method, params string) string {
	p.t.Helper()
	p.send(request(id, method, params))
	return p.next()
}

// hangUp ends the input.
func (p *pipes) hangUp() { _ = p.in.Close() } // of a pipe

func (p *pipes) close() {
	p.t.Helper()
	p.hangUp()
	if err := <-p.ended; err != nil {
		p.t.Error(err)
	}
}

func TestInitialize(t *testing.T) {
	bubble(t, newFleet(), &Options{Version: "v1"}, func(t *testing.T, g *Gateway) {
		for asked, want := range map[string]string{"2024-11-05": "2024-11-05", "2025-11-25": "2025-11-25", "2099-01-01": "2025-11-25", "": "2025-11-25"} {
			p := dial(t, g)
			expect(t, p.ask(1, "ping", `{}`), result(1, `{}`))
			expectPart(t, p.ask(2, "tools/list", `{}`), `"code":-32600`, "initialize comes first")
			got := p.ask(3, "initialize", fmt.Sprintf(`{"protocolVersion":%q}`, asked))
			expect(t, got, result(3, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"completions":{},"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true},"tools":{"listChanged":true}},"serverInfo":{"name":"toolfleet","version":"v1"}}`, want)))
			expectPart(t, p.ask(4, "initialize", hello), "answered before")
			expectPart(t, p.ask(`"x"`, "server/discover", `{}`), `"id":"x"`, `"code":-32601`)
			p.close()
		}
	})
}

// R19: tools go out as the servers sent them, but for their names; the same list
// is the same bytes.
func TestToolsAreListedAsTheyAre(t *testing.T) {
	odd := `{"title":"T","name":"odd", "description":"d","inputSchema":{"$schema":"x","type":["object"],"minProperties":1.0,"anyOf":[true]},"vendor":{"n":9007199254740993},"annotations":{"category":"c","readOnlyHint":"yes"}}`
	bubble(t, newFleet(odd, `{"name":"plain","description":"d"}`), nil, func(t *testing.T, g *Gateway) {
		p := greet(t, g)
		defer p.close()
		want := result(1, `{"tools":[`+strings.Replace(odd, `"odd"`, `"s__odd"`, 1)+`,{"name":"s__plain","description":"d"}]}`)
		expect(t, p.ask(1, "tools/list", `{}`), want)
		expect(t, p.ask(1, "tools/list", `{"cursor":""}`), want)
	})
}

func TestPages(t *testing.T) {
	f := newFleet(`{"name":"a"}`, `{"name":"b"}`, `{"name":"c"}`, `{"name":"d"}`, `{"name":"e"}`)
	bubble(t, f, &Options{PageSize: 2}, func(t *testing.T, g *Gateway) {
		p := greet(t, g)
		defer p.close()
		cursor := ""
		var pages []string
		for range 3 {
			var r struct {
				Result struct {
					Tools  []struct{ Name string } `json:"tools"`
					Cursor string                  `json:"nextCursor"`
				} `json:"result"`
			}
			if err := json.Unmarshal([]byte(p.ask(1, "tools/list", fmt.Sprintf(`{"cursor":%q}`, cursor))), &r, json.MatchCaseInsensitiveNames(true)); err != nil {
				t.Fatal(err)
			}
			cursor = r.Result.Cursor
			pages = append(pages, fmt.Sprint(r.Result.Tools))
			if len(pages) == 1 { // what goes between two pages costs no other
				f.list(`{"name":"a"}`, `{"name":"c"}`, `{"name":"d"}`, `{"name":"e"}`)
				expect(t, p.next(), changed)
			}
		}
		expect(t, strings.Join(pages, " "), "[{s__a} {s__b}] [{s__c} {s__d}] [{s__e}]")
		expect(t, cursor, "")
		expectPart(t, p.ask(1, "tools/list", `{"cursor":"?"}`), `"code":-32602`)
	})
}

// R14: the first list waits for servers whose tools nobody knows, and no longer
// than it should; what is missing is named.
func TestTheFirstListWaits(t *testing.T) {
	f := newFleet()
	bubble(t, f, nil, func(t *testing.T, g *Gateway) {
		f.await("slow", "x")
		f.servers = append(f.servers, projections.Status{ID: "bad", State: projections.AuthRequired, Status: projections.IsDisconnected, Want: events.Running})
		p := dial(t, g)
		defer p.close()
		expectPart(t, p.ask(0, "initialize", hello), `"instructions":"Still starting when you connected: slow, x. Their tools`, `without tools: bad (auth-required)`)
		begun := time.Now()
		expect(t, p.ask(1, "tools/list", `{}`), result(1, `{"tools":[],"_meta":{"toolfleet/missing":["slow","x"]}}`))
		if d := time.Since(begun); d != DefaultStartupWait {
			t.Errorf("the first list waited %v", d)
		}
		p.ask(2, "tools/list", `{}`)
		if d := time.Since(begun); d != DefaultStartupWait {
			t.Errorf("the second list waited as well, until %v", d)
		}
		// Another client does not wait longer than it must.
		other := greet(t, g)
		defer other.close()
		begun = time.Now()
		time.AfterFunc(time.Second, func() {
			f.await()
			f.list(`{"name":"a","description":"d"}`)
			close(f.known)
		})
		expect(t, other.ask(1, "tools/list", `{}`), result(1, `{"tools":[{"name":"s__a","description":"d"}]}`))
		if d := time.Since(begun); d != time.Second {
			t.Errorf("it waited %v", d)
		}
		// One that fails is not waited for any longer.
		expect(t, other.next(), changed)
		f.known = make(chan struct{})
		f.await("failing")
		third := greet(t, g)
		defer third.close()
		begun = time.Now()
		time.AfterFunc(time.Second, f.fail)
		third.ask(1, "tools/list", `{}`)
		if d := time.Since(begun); d != time.Second {
			t.Errorf("it waited %v for one that failed", d)
		}
	})
}

// R20, R22: results are those of the servers, and outcomes are for the model.
func TestCalls(t *testing.T) {
	f := newFleet()
	bubble(t, f, nil, func(t *testing.T, g *Gateway) {
		p := greet(t, g)
		defer p.close()
		odd := `{"content":[{"type":"hologram"}],"structuredContent":{"n":9007199254740993,"x":1.0},"_meta":{"a":"\u00e9"},"isError":true}`
		var got string
		f.answer = func(_ context.Context, name string, arguments []byte, _ *session.CallOptions) (*session.Result, error) {
			got = name + string(arguments)
			return &session.Result{JSON: jsontext.Value(odd)}, nil
		}
		expect(t, p.ask(1, "tools/call", `{"name":"s__a","arguments":{"n":1.0, "b":"\u00e9"}}`), result(1, odd))
		expect(t, got, `s__a{"n":1.0, "b":"\u00e9"}`)
		p.ask(1, "tools/call", `{"name":"s__a","arguments":null}`)
		expect(t, got, `s__a`)

		ends := func(err error) {
			f.answer = func(context.Context, string, []byte, *session.CallOptions) (*session.Result, error) { return nil, err }
		}
		ends(errors.Mark(errors.New(`unknown tool "x" as of event 5`), session.ErrUnknownTool))
		expect(t, p.ask(2, "tools/call", `{"name":"x"}`), `{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"unknown tool \"x\" as of event 5"}}`)
		ends(errors.Mark(errors.New("no object"), session.ErrInvalidArguments))
		expectPart(t, p.ask(3, "tools/call", `{"name":"x","arguments":[]}`), `"code":-32602`)
		for _, e := range []error{session.ErrNotExecuted, session.ErrUnknownOutcome, session.ErrFailed} {
			ends(&session.CallError{Outcome: e, Server: "s", Tool: "a"})
			expectPart(t, p.ask(4, "tools/call", `{"name":"x"}`), `"isError":true`, `MCP error: call a of server s: `+e.Error())
		}
		ends(&session.CallError{Outcome: session.ErrCancelled, Server: "s", Tool: "a"})
		expectPart(t, p.ask(5, "tools/call", `{"name":"x"}`), `"code":-32800`)
		expectPart(t, p.ask(6, "tools/call", `{"name":7}`), `"code":-32602`)
	})
}

func TestProgressAndLogs(t *testing.T) {
	f := newFleet()
	bubble(t, f, nil, func(t *testing.T, g *Gateway) {
		f.answer = func(_ context.Context, _ string, _ []byte, o *session.CallOptions) (*session.Result, error) {
			if o.Progress != nil {
				o.Progress(jsontext.Value(`{"progressToken":"ours","progress":1.0,"x":{"progressToken":1}}`))
			}
			o.Log(jsontext.Value(`{"level":"debug","data":1}`))
			o.Log(jsontext.Value(`{"level":"error","data":2}`))
			return &session.Result{JSON: jsontext.Value(`{}`)}, nil
		}
		p := greet(t, g)
		defer p.close()
		hasLog := notice("notifications/message", `{"level":"error","data":2}`)
		expect(t, p.ask(1, "tools/call", `{"name":"a","_meta":{"progressToken":"mine"}}`),
			notice("notifications/progress", `{"progressToken":"mine","progress":1.0,"x":{"progressToken":1}}`))
		expect(t, p.next(), hasLog)
		expect(t, p.next(), result(1, `{}`))
		expect(t, p.ask(2, "logging/setLevel", `{"level":"debug"}`), result(2, `{}`))
		expect(t, p.ask(3, "tools/call", `{"name":"a"}`), notice("notifications/message", `{"level":"debug","data":1}`))
		expect(t, p.next(), hasLog)
		expect(t, p.next(), result(3, `{}`))
		expectPart(t, p.ask(4, "logging/setLevel", `{"level":"loud"}`), `"code":-32602`)
		for range 20 { // whichever is seen first
			p.send(request(5, "ping", `{}`)) // is not read until the call has answered
			synctest.Wait()
			p.send(request(6, "tools/call", `{"name":"a"}`))
			synctest.Wait()
			expect(t, p.next(), result(5, `{}`))
			expect(t, p.next(), notice("notifications/message", `{"level":"debug","data":1}`))
			expect(t, p.next(), hasLog)
			expect(t, p.next(), result(6, `{}`))
		}
	})
}

func TestCancelledCallsHaveNoAnswer(t *testing.T) {
	f := newFleet()
	bubble(t, f, nil, func(t *testing.T, g *Gateway) {
		cancelled := make(chan string, 1)
		f.answer = hangs(cancelled)
		p := greet(t, g)
		defer p.close()
		p.send(request(`"a"`, "tools/call", `{"name":"x","arguments":{"n":1}}`))
		expectPart(t, p.ask(`"a"`, "tools/call", `{"name":"x"}`), `"id":"a"`, `in flight`)
		p.send(notice("notifications/cancelled", `{"requestId":1}`), notice("notifications/cancelled", `{}`))
		p.send(notice("notifications/cancelled", `{"requestId":"a","reason":"enough"}`))
		expect(t, <-cancelled, `{"n":1}`)
		expect(t, p.ask(2, "ping", `{}`), result(2, `{}`))
	})
}

func TestRequestsInFlightAreBounded(t *testing.T) {
	f := newFleet()
	bubble(t, f, nil, func(t *testing.T, g *Gateway) {
		f.answer = hangs(make(chan string, maxInFlight))
		p := greet(t, g)
		for i := range maxInFlight {
			p.send(request(i, "tools/call", `{"name":"x"}`))
		}
		expectPart(t, p.ask(`"more"`, "tools/call", `{"name":"x"}`), `"code":-31429`)
		p.cancel()
		if err := <-p.ended; err != nil {
			t.Error(err)
		}
		p.hangUp()
	})
}

// R22: clients hear of what they can see, once for a burst, and not before they
// are ready.
func TestListChanged(t *testing.T) {
	f := newFleet()
	bubble(t, f, nil, func(t *testing.T, g *Gateway) {
		p := dial(t, g)
		defer p.close()
		p.ask(1, "initialize", hello)
		p.ask(2, "tools/list", `{}`)
		f.list(`{"name":"a"}`)
		time.Sleep(time.Second)
		p.send(initialized)
		expect(t, p.next(), changed) // it came before
		for i := range 10 {
			f.list(fmt.Sprintf(`{"name":"a%d"}`, i))
			time.Sleep(settle / 20)
		}
		begun := time.Now()
		expect(t, p.next(), changed)
		if d := time.Since(begun); d > settle {
			t.Errorf("told after %v", d)
		}
		f.fail() // nothing that a client sees
		f.mu.Lock()
		f.tools = slices.Clone(f.tools)
		f.tools[0].State = projections.ToolsStale
		f.mu.Unlock()
		time.Sleep(time.Second)
		expect(t, p.ask(3, "ping", `{}`), result(3, `{}`))
	})
}

func TestWhatIsNoMessage(t *testing.T) {
	bubble(t, newFleet(), &Options{MaxMessage: 100}, func(t *testing.T, g *Gateway) {
		p := dial(t, g)
		defer p.close()
		p.send("junk")
		expectPart(t, p.next(), `"id":null`, `"code":-32700`)
		p.send(`[]`)
		expectPart(t, p.next(), `"code":-32600`)
		p.send(strings.Repeat("x", 1<<20))
		expectPart(t, p.next(), `"code":-32600`, "too long")
		p.send("", "\r")
		expect(t, p.ask(1, "ping", `{"x":"`+strings.Repeat("x", 100-len(request(1, "ping", `{"x":""}`)))+`"}`), result(1, `{}`))
		p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`) // to nothing that was asked
	})
}

// At the end of its input a client still gets its answers, within a limit; without
// an end of line as well.
func TestTheEndOfTheInput(t *testing.T) {
	f := newFleet()
	bubble(t, f, nil, func(t *testing.T, g *Gateway) {
		f.answer = func(ctx context.Context, name string, _ []byte, _ *session.CallOptions) (*session.Result, error) {
			if name == "never" {
				<-ctx.Done()
				return nil, session.ErrCancelled
			}
			time.Sleep(lastAnswers / 2)
			return &session.Result{JSON: jsontext.Value(`{}`)}, nil
		}
		p := greet(t, g)
		if _, err := io.WriteString(p.in, request(1, "tools/call", `{"name":"slow"}`)); err != nil {
			t.Fatal(err)
		}
		p.hangUp()
		expect(t, p.next(), result(1, `{}`))
		if err := <-p.ended; err != nil {
			t.Error(err)
		}
		p = greet(t, g)
		p.send(request(1, "tools/call", `{"name":"never"}`))
		begun := time.Now()
		p.close()
		if d := time.Since(begun); d != lastAnswers {
			t.Errorf("it ended after %v", d)
		}
	})
}

// A client that does not read costs the others nothing.
func TestASlowReader(t *testing.T) {
	f := newFleet()
	bubble(t, f, nil, func(t *testing.T, g *Gateway) {
		var sent atomic.Int64
		f.answer = func(ctx context.Context, name string, _ []byte, o *session.CallOptions) (*session.Result, error) {
			for name == "chatty" && ctx.Err() == nil {
				o.Progress(jsontext.Value(`{"progress":1}`))
				sent.Add(1)
				time.Sleep(time.Millisecond)
			}
			return &session.Result{JSON: jsontext.Value(`{}`)}, nil
		}
		slow, other := greet(t, g), greet(t, g)
		defer other.close()
		slow.send(request(1, "tools/call", `{"name":"chatty","_meta":{"progressToken":1}}`))
		if err := <-slow.ended; !errors.Is(err, errSlow) {
			t.Errorf("it ended with %v", err)
		}
		if n := sent.Load(); n < maxWaiting || n > maxWaiting+5 {
			t.Errorf("it ended after %d messages", n)
		}
		expect(t, other.ask(1, "tools/call", `{"name":"quiet"}`), result(1, `{}`))
		slow.hangUp()
	})
}

func TestTheQueueIsBoundedInBytes(t *testing.T) {
	q := newQueue()
	for range 5 {
		q.push(make([]byte, maxWaitingBytes/4))
	}
	select {
	case <-q.over:
	default:
		t.Error("the queue takes more than it should")
	}
	if n := len(q.take()); n != 4 {
		t.Errorf("%d messages are waiting", n)
	}
}

func TestTheEndOfTheGateway(t *testing.T) {
	f := newFleet()
	synctest.Test(t, func(t *testing.T) {
		f.changes = make(chan struct{}, 1)
		cancelled := make(chan string, 1)
		f.answer = hangs(cancelled)
		g := New(f, nil)
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- g.Run(ctx) }()
		p := greet(t, g)
		p.send(request(1, "tools/call", `{"name":"x"}`))
		synctest.Wait()
		stop()
		<-cancelled
		if err := errors.Join(<-ran, <-p.ended); err != nil {
			t.Error(err)
		}
		p.hangUp()
		in, _ := io.Pipe()
		if err := g.ServeStdio(t.Context(), in, io.Discard); !errors.Is(err, errEnded) {
			t.Errorf("after the end: %v", err)
		}
	})
}
