package web_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/controller/web"
)

// pipes is a listener inside a bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (*pipes) Addr() net.Addr { return &net.IPAddr{} }

// serve serves over pipes.
func (r *rig) serve() {
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	r.handler = web.New(r.parts, &r.o)
	server := &http.Server{Handler: r.handler} //nolint:gosec // a pipe
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	r.dial = func() net.Conn {
		near, far := net.Pipe()
		l.conns <- far
		return near
	}
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return r.dial(), nil }}
	r.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	r.t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close() // of pipes
		<-served
		time.Sleep(time.Second) // the server lingers on connections that it closes
	})
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
	// problem is the body of a problem.
	problem web.Problem
}

// send sends a request, with the headers name, value and so on; the first of "" is
// the token's.
func (r *rig) send(ctx context.Context, method, target, body string, headers ...string) *http.Response {
	r.t.Helper()
	var content io.Reader = http.NoBody
	if body != "" {
		content = strings.NewReader(body)
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://localhost"+target, content)
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+all)
	for i := 0; i < len(headers); i += 2 {
		switch name, value := headers[i], headers[i+1]; {
		case name == "Host":
			q.Host = value
		case value == "":
			q.Header.Del(name)
		default:
			q.Header.Set(name, value)
		}
	}
	resp, err := r.client.Do(q)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, target, err)
	}
	return resp
}

// ask sends a request and reads the answer.
func (r *rig) ask(method, target, body string, headers ...string) answer {
	r.t.Helper()
	resp := r.send(r.t.Context(), method, target, body, headers...)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, target, err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, body: string(data)}
	if resp.Header.Get("Content-Type") == "application/problem+json" && method != http.MethodHead {
		if err := json.Unmarshal(data, &a.problem, json.RejectUnknownMembers(true)); err != nil {
			r.t.Fatalf("%s: %v", data, err)
		}
		if a.problem.Status != a.status || a.problem.Title == "" || a.problem.Detail == "" {
			r.t.Errorf("%d is the problem %s", a.status, data)
		}
	}
	return a
}

func (r *rig) get(target string, headers ...string) answer {
	r.t.Helper()
	return r.ask(http.MethodGet, target, "", headers...)
}

// expect fails the test unless an answer is a problem with that status and code,
// which names its parts.
func (r *rig) expect(a answer, status int, code web.Code, parts ...string) {
	r.t.Helper()
	if a.status != status || a.problem.Code != code {
		r.t.Errorf("got %d %s, want %d %s", a.status, a.body, status, code)
	}
	for _, p := range parts {
		if !strings.Contains(a.body, p) {
			r.t.Errorf("%s lacks %q", a.body, p)
		}
	}
}

// decode reads an answer that is no problem.
func decode[T any](r *rig, a answer) (v T) {
	r.t.Helper()
	if a.status >= http.StatusBadRequest || a.header.Get("Content-Type") != "application/json" {
		r.t.Fatalf("got %d %s %s", a.status, a.header.Get("Content-Type"), a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		r.t.Fatalf("%s: %v", a.body, err)
	}
	return v
}

// flow is a stream of events.
type flow struct {
	t     *testing.T
	resp  *http.Response
	lines *bufio.Scanner
	stop  context.CancelFunc
}

func (r *rig) stream(target string, headers ...string) *flow {
	r.t.Helper()
	ctx, stop := context.WithCancel(r.t.Context())
	resp := r.send(ctx, http.MethodGet, target, "", append([]string{"Accept", "text/event-stream"}, headers...)...)
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		r.t.Fatalf("%s %s", resp.Status, kind)
	}
	f := &flow{r.t, resp, bufio.NewScanner(resp.Body), stop}
	r.t.Cleanup(f.close)
	return f
}

// next returns the lines of the next event; "" at the end.
func (f *flow) next() string {
	var lines []string
	for f.lines.Scan() {
		line := f.lines.Text()
		if line == "" {
			break
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (f *flow) close() {
	f.stop()
	f.resp.Body.Close()
}

// requests is who takes requests, as the test says.
type requests func(ctx context.Context, q *request.Request) (request.Answer, error)

func (f requests) Do(ctx context.Context, q *request.Request) (request.Answer, error) {
	return f(ctx, q)
}
