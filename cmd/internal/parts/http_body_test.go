package parts

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are pipes within the process.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.done)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// Who is refused and sends no body does not keep the connection.
func TestHTTPBodyThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		s := &HTTP{o: &HTTPOptions{}, listener: l}
		s.set(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- s.serve(func(ctx context.Context) error { <-ctx.Done(); return nil }).Run(ctx)
		}()
		theirs, ours := net.Pipe()
		l.conns <- theirs
		began := time.Now()
		if _, err := fmt.Fprint(ours, "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(ours)
		if took := time.Since(began); took > bodyWithin+time.Second || !strings.HasPrefix(string(answer), "HTTP/1.1 401") {
			t.Errorf("after %v it was answered with %q, %v", took, answer, err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
