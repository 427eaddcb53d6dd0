package bubble

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/toolfleet/toolfleet/events"
)

// web is a network of HTTP servers whose connections are pipes, so that time in
// a bubble goes on while they are idle.
type web struct {
	t *testing.T

	mu    sync.Mutex // guards what follows
	hosts map[string]*listener
	calls int
}

func newWeb(t *testing.T) *web { return &web{t: t, hosts: make(map[string]*listener)} }

// dial connects to a host. Its errors are those of a dialer.
func (w *web) dial(ctx context.Context, _, address string) (net.Conn, error) {
	w.mu.Lock()
	l := w.hosts[strings.TrimSuffix(address, ":80")]
	w.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.Newf("no host %s", address)}
	}
	near, far := net.Pipe()
	select {
	case l.accepted <- far:
		return near, nil
	case <-l.closed:
	case <-ctx.Done():
	}
	near.Close()
	far.Close()
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")}
}

// slowly is how long the tool "slow" of every server takes.
const slowly = 3 * time.Second

// serve adds an MCP server with tools of these names, and returns its definition.
func (w *web) serve(host string, tools ...string) *events.Definition {
	m := server.NewMCPServer(host, "1", server.WithToolCapabilities(true))
	for _, name := range tools {
		m.AddTool(mcp.NewTool(name), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if name == "slow" {
				select {
				case <-time.After(slowly):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls++
			return mcp.NewToolResultText(host + " " + r.Params.Name), nil
		})
	}
	l := &listener{accepted: make(chan net.Conn), closed: make(chan struct{})}
	s := &http.Server{Handler: server.NewStreamableHTTPServer(m, server.WithStateful(true))} //nolint:gosec // a pipe
	var done sync.WaitGroup
	done.Go(func() { _ = s.Serve(l) }) // until it is closed
	w.t.Cleanup(func() {
		_ = s.Close() // a listener that is closed
		done.Wait()
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[host] = l
	return &events.Definition{URL: "http://" + host + "/mcp"}
}

// called returns how many calls were executed.
func (w *web) called() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

// listener accepts pipes.
type listener struct {
	accepted chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }
