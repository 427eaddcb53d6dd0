package gateway

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/guard"
	"github.com/toolfleet/toolfleet/session"
)

// everyone are the tokens of several principals.
var everyone = map[string]string{"me": token, "you": "yours", "they": "theirs"}

func (w *web) ping() int {
	w.t.Helper()
	return w.status(http.MethodPost, request(1, "ping", `{}`))
}

// Whoever opens too many sessions ends its own, the longest idle first; others have
// a place whatever it does, and what is in flight is not ended.
func TestManySessions(t *testing.T) {
	f := newFleet()
	overHTTP(t, f, &Options{Tokens: everyone, MaxSessions: 4}, func(t *testing.T, g *Gateway, w *web) {
		yours := w.with("Authorization", "Bearer yours").greet()
		time.Sleep(time.Second)
		listens := w.greet()
		p := listens.stream(http.MethodGet, "")
		go func() { _, _ = io.Copy(io.Discard, p.resp.Body) }()
		var mine []*web
		for range 10 {
			time.Sleep(time.Second)
			mine = append(mine, w.greet())
		}
		for i, s := range mine {
			want := http.StatusNotFound
			if i >= 8 {
				want = http.StatusOK
			}
			if got := s.ping(); got != want {
				t.Errorf("session %d: status %d, want %d", i, got, want)
			}
			time.Sleep(time.Second)
		}
		theirs := w.with("Authorization", "Bearer theirs").greet() // yours is idle for the longest time
		for name, n := range map[string]*web{"listens": listens, "idle for less": mine[8], "new": theirs} {
			if got := n.ping(); got != http.StatusOK {
				t.Errorf("one that %s: status %d", name, got)
			}
		}
		if got := yours.ping(); got != http.StatusNotFound {
			t.Errorf("the longest idle one: status %d", got)
		}
		g.mu.Lock()
		if n := len(g.clients); n != 4 {
			t.Errorf("there are %d clients", n)
		}
		g.mu.Unlock()
		p.close()
	})
}

// Those that listen take no places of other requests, and one principal's none of
// the others'.
func TestListenersAreCountedApart(t *testing.T) {
	f := newFleet()
	overHTTP(t, f, &Options{Tokens: everyone}, func(t *testing.T, g *Gateway, w *web) {
		n, body := w.asks("subscriptions/listen", "", wantsTools)
		p := n.stream(http.MethodPost, body)
		p.next()
		if !g.listening.Take("me", maxListeningEach-1) {
			t.Fatal("it takes more than one place")
		}
		ctx, cancel := context.WithCancel(t.Context())
		more := n.do(ctx, http.MethodPost, body)
		if more.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("one more listens: %s", more.Status)
		}
		cancel()
		more.Body.Close()
		if got, _ := w.ask("tools/list", "", `{}`); got != http.StatusOK {
			t.Errorf("a request: status %d", got)
		}
		synctest.Wait()
		if n := g.stray.Swap(maxStray); n != 0 {
			t.Errorf("%d requests are in flight", n)
		}
		if got, _ := w.ask("tools/list", "", `{}`); got != http.StatusServiceUnavailable {
			t.Errorf("one request too many: status %d", got)
		}
		other := n.with("Authorization", "Bearer yours").stream(http.MethodPost, body)
		expect(t, other.next(), "data: "+acknowledged)
		other.close()
		p.close()
		synctest.Wait()
		g.listening.Give("me", maxListeningEach-1)
		if n := g.listening.Taken(); n != 0 {
			t.Errorf("%d places are taken", n)
		}
	})
}

// Bodies that do not come to their end have so much memory together, and one
// principal's leave room for the others'.
func TestBodiesAreBounded(t *testing.T) {
	f := newFleet()
	overHTTP(t, f, &Options{Tokens: everyone}, func(t *testing.T, g *Gateway, w *web) {
		const size, many = DefaultMaxMessage - 1<<10, maxBodiesEach / DefaultMaxMessage
		long := request(0, "initialize", hello) + strings.Repeat(" ", 1<<20)
		ended := make(chan int, many)
		for range many {
			go func() { ended <- w.begin(size) }()
		}
		synctest.Wait()
		for value, want := range map[string]int{token: http.StatusServiceUnavailable, "yours": http.StatusOK} {
			if got := w.with("Authorization", "Bearer "+value).status(http.MethodPost, long); got != want {
				t.Errorf("%s: status %d, want %d", value, got, want)
			}
		}
		synctest.Wait()
		if n := g.bodies.Taken(); n != many*size {
			t.Errorf("%d bytes are taken", n)
		}
		for range many {
			if got := <-ended; got != http.StatusBadRequest {
				t.Errorf("a body that ends early: status %d", got)
			}
		}
		if got := w.status(http.MethodPost, long); got != http.StatusOK {
			t.Errorf("afterwards: status %d", got)
		}
		// What is sent counts until its answer.
		f.answer = hangs(make(chan string, 1))
		ctx, cancel := context.WithCancel(t.Context())
		n, body := w.asks("tools/call", "x", `{"name":"x"}`)
		go func() {
			defer cancel()
			synctest.Wait()
			if got := g.bodies.Taken(); got != int64(len(body)) {
				t.Errorf("%d bytes are taken by a call of %d", got, len(body))
			}
		}()
		n.gone(ctx, body)
		synctest.Wait()
		if n := g.bodies.Taken(); n != 0 {
			t.Errorf("%d bytes are taken", n)
		}
	})
}

// begin sends so much of a body, not its end, and returns the answer's status.
func (w *web) begin(size int) int {
	rest, end := io.Pipe()
	defer func() { _ = end.Close() }() // of a pipe
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://localhost/mcp",
		io.MultiReader(strings.NewReader(strings.Repeat(" ", size)), rest))
	if err != nil {
		w.t.Error(err)
		return 0
	}
	r.Header = w.header.Clone()
	resp, err := w.client.Do(r)
	if err != nil {
		w.t.Error(err)
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// There is room for the longest message, however long it may be.
func TestRoomForTheLongest(t *testing.T) {
	for _, longest := range []int64{1, DefaultMaxMessage, maxBodiesEach + 1, maxBodies + 1} {
		b := newBodies(int(longest))
		if !b.Take("me", longest) || !b.Take("you", longest) {
			t.Errorf("not for two of %d bytes", longest)
		}
	}
}

// A token that is taken back, or given to another, loses its streams, however much
// is sent there; a call that has begun goes on.
func TestStreamsOfARevokedToken(t *testing.T) {
	for _, now := range []string{"", "you"} {
		f := newFleet()
		var name atomic.Value
		name.Store("me")
		o := &Options{Guard: guard.New(&guard.Options{Holder: func(string) (guard.Principal, bool) {
			p := guard.Principal{Name: name.Load().(string), Scopes: []guard.Scope{guard.Call}}
			return p, p.Name != ""
		}})}
		overHTTP(t, f, o, func(t *testing.T, g *Gateway, w *web) {
			f.answer = takes(10 * heartbeat)
			n, body := w.asks("subscriptions/listen", "", wantsTools)
			streams := map[string]*flow{"listens": n.stream(http.MethodPost, body), "GET": w.greet().stream(http.MethodGet, "")}
			ended := make(chan string, len(streams))
			for kind, p := range streams {
				go func() {
					for p.next() != "" { // to the end
					}
					ended <- kind
				}()
			}
			n, body = w.asks("tools/call", "x", `{"name":"x"}`)
			answered := make(chan string, 1)
			go func() {
				_, answer := n.post(body)
				answered <- answer
			}()
			flood(g, 4*heartbeat)
			if len(ended) > 0 {
				t.Errorf("%s ended before it was to", <-ended)
			}
			name.Store(now)
			flood(g, heartbeat)
			if len(ended) != len(streams) {
				t.Errorf("%d streams ended", len(ended))
			}
			expectPart(t, <-answered, result(1, `{"resultType":"complete"}`))
			for _, p := range streams {
				p.close()
			}
		})
	}
}

// takes answers a call after a time, unless it is cancelled.
func takes(d time.Duration) func(context.Context, string, []byte, *session.CallOptions) (*session.Result, error) {
	return func(ctx context.Context, _ string, _ []byte, _ *session.CallOptions) (*session.Result, error) {
		select {
		case <-time.After(d):
			return &session.Result{JSON: jsontext.Value(`{}`)}, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// flood tells of changes for some time, more often than streams have heartbeats.
func flood(g *Gateway, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(heartbeat / 3)
		g.announce(tools)
	}
	synctest.Wait()
}

// Nothing but a method's whole name is that method.
func TestMethods(t *testing.T) {
	overHTTP(t, newFleet(), nil, func(t *testing.T, _ *Gateway, w *web) {
		s := w.greet()
		for _, method := range []string{"GE", "DELET", "E", "get", http.MethodHead, http.MethodPut, http.MethodOptions} {
			for allow, n := range map[string]*web{"POST, GET, DELETE": s, http.MethodPost: s.with(revisionHeader, modern)} {
				r := n.do(t.Context(), method, "")
				n.read(r)
				if r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != allow {
					t.Errorf("%s: status %d, Allow %s", method, r.StatusCode, r.Header.Get("Allow"))
				}
			}
		}
		if got := s.ping(); got != http.StatusOK {
			t.Errorf("afterwards: status %d", got)
		}
	})
}
