//go:build real

package real

import (
	"fmt"
	"net"
	"os/exec"
	"testing"
)

// remote is a server over streamable HTTP that the test runs, on one port as
// often as it is started. The fleet only knows its address.
type remote struct {
	t    *testing.T
	as   server // but for the way to it
	port int
	said *output
	cmd  *exec.Cmd
}

// startRemote starts a server, which ends with the test.
func startRemote(t *testing.T, as server) *remote {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("the address %v has no port", l.Addr())
	}
	l.Close()
	r := &remote{t: t, as: as, port: address.Port, said: &output{}}
	t.Cleanup(func() {
		if r.cmd != nil {
			r.kill()
		}
		if t.Failed() {
			t.Logf("the remote server said:\n%s", r.said)
		}
	})
	r.start()
	return r
}

// start starts the server and returns when it listens.
func (r *remote) start() {
	r.t.Helper()
	before := r.said.count("listening on port")
	cmd := exec.Command(r.as.Command, r.as.Args...)
	cmd.Env = append(r.as.environ(), fmt.Sprintf("PORT=%d", r.port))
	cmd.Stdout, cmd.Stderr = r.said, r.said
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.cmd = cmd
	eventually(r.t, "the remote server's start", func() bool { return r.said.count("listening on port") > before })
}

// kill ends the server as kill -9 does.
func (r *remote) kill() {
	_ = r.cmd.Process.Kill() // it may be gone
	_ = r.cmd.Wait()         // killed
}

// deletes counts the sessions that the server was told to end.
func (r *remote) deletes() int { return r.said.count("Received session termination request") }

// address is where the server listens, as long as it runs.
func (r *remote) address() string { return fmt.Sprintf("127.0.0.1:%d", r.port) }

// server is what the fleet knows.
func (r *remote) server() server {
	return server{ID: r.as.ID, URL: "http://" + r.address() + "/mcp"}
}
