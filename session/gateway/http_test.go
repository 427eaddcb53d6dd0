package gateway

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/session"
)

func TestOverHTTP(t *testing.T) {
	f := newFleet(`{"name":"a","description":"d"}`)
	f.answer = answers("{\n\"content\":[]}")
	overHTTP(t, f, nil, func(t *testing.T, _ *Gateway, w *web) {
		s := w.greet()
		r := s.do(t.Context(), http.MethodPost, request(1, "tools/list", `{}`))
		if kind := r.Header.Get("Content-Type"); kind != "application/json" {
			t.Errorf("content type %s", kind)
		}
		_, body := s.read(r)
		expect(t, body, result(1, `{"tools":[{"name":"s__a","description":"d"}]}`))
		_, body = s.post(request(2, "tools/call", `{"name":"s__a"}`))
		expect(t, body, result(2, `{ "content":[]}`))
		_, body = s.post(request(3, "tools/none", `{}`))
		expectPart(t, body, `"code":-32601`)
		_, body = w.post(request(3, "initialize", `{"protocolVersion":7}`))
		expectPart(t, body, `"code":-32602`)
		for body, want := range map[string]int{
			`{`: http.StatusBadRequest, `[]`: http.StatusBadRequest,
			notice("notifications/x", `{}`): http.StatusAccepted, `{"jsonrpc":"2.0","id":1,"result":{}}`: http.StatusAccepted,
		} {
			if got := s.status(http.MethodPost, body); got != want {
				t.Errorf("%s: status %d, want %d", body, got, want)
			}
		}
		if got := s.status(http.MethodPut, ""); got != http.StatusMethodNotAllowed {
			t.Errorf("PUT: status %d", got)
		}
		if got := s.with("Accept", "application/json").status(http.MethodGet, ""); got != http.StatusNotAcceptable {
			t.Errorf("GET: status %d", got)
		}
		if got := s.status(http.MethodDelete, ""); got != http.StatusNoContent {
			t.Errorf("DELETE: status %d", got)
		}
		if got := s.status(http.MethodPost, request(1, "ping", `{}`)); got != http.StatusNotFound {
			t.Errorf("after DELETE: status %d", got)
		}
	})
}

func TestProgressMakesAStream(t *testing.T) {
	f := newFleet()
	f.answer = func(ctx context.Context, name string, _ []byte, o *session.CallOptions) (*session.Result, error) {
		if o.Progress != nil {
			o.Progress(jsontext.Value(`{"progressToken":0,"progress":1}`))
		}
		if name == "slow" {
			select {
			case <-time.After(bodyLimit + time.Millisecond):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return &session.Result{JSON: jsontext.Value(`{}`)}, nil
	}
	overHTTP(t, f, nil, func(t *testing.T, _ *Gateway, w *web) {
		s := w.greet()
		call := request(1, "tools/call", `{"name":"x","_meta":{"progressToken":7}}`)
		for range 20 { // whichever is seen first, the order is that
			p := s.stream(http.MethodPost, call)
			expect(t, p.next(), "data: "+notice("notifications/progress", `{"progressToken":7,"progress":1}`))
			expect(t, p.next(), "data: "+result(1, `{}`))
			expect(t, p.next(), "")
			p.close()
		}
		if _, body := s.with("Accept", "application/json").post(call); body != result(1, `{}`) {
			t.Errorf("without streams: %s", body)
		}
		// A call that takes long has a first byte, and a sign of life, in time.
		begun := time.Now()
		p := s.stream(http.MethodPost, request(1, "tools/call", `{"name":"slow"}`))
		expect(t, p.next(), ":")
		within(t, begun, earlyByte)
		expect(t, p.next(), ":")
		within(t, begun, earlyByte+heartbeat)
		expect(t, p.next(), "data: "+result(1, `{}`))
		p.close()
		// The connection has no limit left from the stream.
		time.Sleep(2 * writeLimit)
		if _, body := s.post(request(1, "ping", `{}`)); body != result(1, `{}`) {
			t.Errorf("later: %s", body)
		}
	})
}

// A cancellation reaches the calls of its own session only.
func TestCancelledOverHTTP(t *testing.T) {
	f := newFleet()
	overHTTP(t, f, &Options{Tokens: map[string]string{"me": token, "you": "other"}}, func(t *testing.T, _ *Gateway, w *web) {
		cancelled := make(chan string, 2)
		f.answer = hangs(cancelled)
		mine, yours := w.greet(), w.with("Authorization", "Bearer other").greet()
		ended := make(chan string, 1)
		go func() {
			_, body := mine.post(request(1, "tools/call", `{"name":"x","arguments":{"of":"me"}}`))
			ended <- body
		}()
		synctest.Wait()
		for _, foreign := range []*web{yours, mine.with("Authorization", "Bearer other"), mine.with("Authorization", "Bearer wrong"), w.with(sessionHeader, "guessed")} {
			foreign.post(notice("notifications/cancelled", `{"requestId":1}`))
		}
		synctest.Wait()
		if len(cancelled) > 0 {
			t.Fatal("a foreign cancellation reached a call")
		}
		mine.post(notice("notifications/cancelled", `{"requestId":1}`))
		expect(t, <-cancelled, `{"of":"me"}`)
		expect(t, <-ended, "")
		// Whoever goes away cancels, too.
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			cancel()
		}()
		mine.gone(ctx, request(2, "tools/call", `{"name":"x","arguments":{"of":2}}`))
		expect(t, <-cancelled, `{"of":2}`)
		// And the end of the session does.
		go mine.post(request(3, "tools/call", `{"name":"x","arguments":{"of":3}}`))
		synctest.Wait()
		mine.status(http.MethodDelete, "")
		expect(t, <-cancelled, `{"of":3}`)
		synctest.Wait()
	})
}

// R22: a client hears of changes on its stream, also of those that came before it
// opened one.
func TestTheStream(t *testing.T) {
	f := newFleet()
	overHTTP(t, f, nil, func(t *testing.T, _ *Gateway, w *web) {
		s := w.greet()
		first := s.stream(http.MethodGet, "")
		begun := time.Now()
		f.list(`{"name":"a"}`)
		expect(t, first.next(), "data: "+changed)
		expect(t, first.next(), ":")
		within(t, begun, settle+heartbeat)
		// Another stream takes its place.
		second := s.stream(http.MethodGet, "")
		expect(t, first.next(), "")
		first.close()
		f.list(`{"name":"b"}`)
		expect(t, second.next(), "data: "+changed)
		second.close()
		synctest.Wait()
		s.post(request(1, "tools/list", `{}`))
		f.list(`{"name":"c"}`)
		time.Sleep(time.Second)
		third := s.stream(http.MethodGet, "")
		expect(t, third.next(), "data: "+changed)
		third.close()
		// It ends with the session.
		fourth := s.stream(http.MethodGet, "")
		s.status(http.MethodDelete, "")
		for line := fourth.next(); line != ""; line = fourth.next() {
			expect(t, line, "data: "+changed)
		}
		fourth.close()
	})
}

func TestIdleSessionsExpire(t *testing.T) {
	f := newFleet()
	overHTTP(t, f, nil, func(t *testing.T, g *Gateway, w *web) {
		s, listener, busy := w.greet(), w.greet(), w.greet()
		p := listener.stream(http.MethodGet, "")
		go func() { _, _ = io.Copy(io.Discard, p.resp.Body) }()
		f.answer = hangs(make(chan string, 1))
		go busy.post(request(1, "tools/call", `{"name":"x"}`))
		time.Sleep(DefaultIdle - time.Second)
		if status := s.status(http.MethodPost, request(1, "ping", `{}`)); status != http.StatusOK {
			t.Errorf("before its time: %d", status)
		}
		time.Sleep(DefaultIdle - time.Second)
		if status := s.status(http.MethodPost, request(1, "ping", `{}`)); status != http.StatusOK {
			t.Errorf("after it was used: %d", status)
		}
		time.Sleep(DefaultIdle + time.Second)
		if status := s.status(http.MethodPost, request(1, "ping", `{}`)); status != http.StatusNotFound {
			t.Errorf("after its time: %d", status)
		}
		for name, n := range map[string]*web{"listens": listener, "calls": busy} {
			if status := n.status(http.MethodPost, request(2, "ping", `{}`)); status != http.StatusOK {
				t.Errorf("one that %s: %d", name, status)
			}
		}
		p.close()
		busy.post(notice("notifications/cancelled", `{"requestId":1}`))
		time.Sleep(DefaultIdle + time.Second)
		g.mu.Lock()
		defer g.mu.Unlock()
		if len(g.clients) != 0 {
			t.Errorf("%d clients are left", len(g.clients))
		}
	})
}

func TestSessionsAreBounded(t *testing.T) {
	overHTTP(t, newFleet(), &Options{MaxSessions: 2}, func(t *testing.T, _ *Gateway, w *web) {
		s, other := w.greet(), w.greet()
		for _, n := range []*web{s, other} {
			p := n.stream(http.MethodGet, "")
			defer p.close()
		}
		if status := w.status(http.MethodPost, request(0, "initialize", hello)); status != http.StatusServiceUnavailable {
			t.Errorf("status %d", status)
		}
		s.status(http.MethodDelete, "")
		w.greet()
	})
}

// A client that does not read its stream costs the others nothing, and loses it.
func TestSlowReadersOverHTTP(t *testing.T) {
	for _, size := range []int{1, 16 << 10} { // less than what connections buffer, and more
		f := newFleet()
		overHTTP(t, f, nil, func(t *testing.T, _ *Gateway, w *web) {
			ended := make(chan time.Time, 1)
			f.answer = func(ctx context.Context, name string, _ []byte, o *session.CallOptions) (*session.Result, error) {
				if name == "quiet" {
					return &session.Result{JSON: jsontext.Value(`{}`)}, nil
				}
				for ctx.Err() == nil {
					o.Progress(jsontext.Value(`{"progress":1,"message":"` + strings.Repeat("x", size) + `"}`))
					time.Sleep(100 * time.Millisecond)
				}
				ended <- time.Now()
				return nil, session.ErrCancelled
			}
			slow, other := w.greet(), w.greet()
			begun := time.Now()
			p := slow.stream(http.MethodPost, request(1, "tools/call", `{"name":"chatty","_meta":{"progressToken":1}}`))
			if _, body := other.post(request(1, "tools/call", `{"name":"quiet"}`)); body != result(1, `{}`) {
				t.Errorf("got %s", body)
			}
			within(t, begun, 0)
			// Buffers of connections fill up first.
			if d := (<-ended).Sub(begun); d < writeLimit || d > writeLimit+maxWaiting*100*time.Millisecond {
				t.Errorf("the slow call ended after %v", d)
			}
			p.close()
		})
	}
}

// More than what may wait ends a stream also where its client reads, and then its
// call is cancelled.
func TestAFloodOverHTTP(t *testing.T) {
	f := newFleet()
	overHTTP(t, f, nil, func(t *testing.T, _ *Gateway, w *web) {
		cancelled := make(chan string, 1)
		f.answer = func(ctx context.Context, name string, arguments []byte, o *session.CallOptions) (*session.Result, error) {
			for range 100 * maxWaiting {
				o.Progress(jsontext.Value(`{"progress":1}`))
			}
			return hangs(cancelled)(ctx, name, arguments, o)
		}
		p := w.greet().stream(http.MethodPost, request(1, "tools/call", `{"name":"chatty","arguments":{},"_meta":{"progressToken":1}}`))
		for p.next() != "" { // to the end
		}
		expect(t, <-cancelled, `{}`)
		p.close()
	})
}

// What comes before an answer is written before it.
func TestNotificationsComeBeforeTheAnswer(t *testing.T) {
	for range 50 { // whichever is seen first
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Accept", "text/event-stream")
		x := newExchange(newStream(w), r, nil)
		x.notify([]byte("1"))
		x.notify([]byte("2"))
		x.end([]byte("3"), http.StatusOK)
		expect(t, w.Body.String(), "data: 1\n\ndata: 2\n\ndata: 3\n\n")
	}
}

// A body that does not come to its end holds nothing up for ever.
func TestASlowBody(t *testing.T) {
	overHTTP(t, newFleet(), nil, func(t *testing.T, _ *Gateway, w *web) {
		body, end := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = w.header
		go func() { _, _ = io.WriteString(end, "{") }()
		begun := time.Now()
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if status, _ := w.read(resp); status != http.StatusBadRequest {
			t.Errorf("status %d", status)
		}
		within(t, begun, bodyLimit)
		_ = end.Close() // of a pipe
	})
}

// A session that was used while its timer ran out stays.
func TestATimerThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(1, time.Minute)
		n, _ := s.add("me", nil, func() {})
		time.Sleep(time.Hour)
		s.release(n)
		if s.removeIdle(n) {
			t.Error("it is gone")
		}
		time.Sleep(time.Minute + 1)
		if _, ok := s.use(n.id, "me"); ok {
			t.Error("it is still there")
		}
	})
}
