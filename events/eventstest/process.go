package eventstest

import (
	"bufio"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
)

// childVariable makes a test binary a server instead: it holds a nodeConfig.
const childVariable = "EVENTSTEST_SERVER"

// serveIfChild is called at the initialisation of every test binary with this
// package in it.
func serveIfChild() {
	text, ok := os.LookupEnv(childVariable)
	if !ok {
		return
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs a server until stdin ends, as it does when the parent is gone. It
// writes the server's URL to stdout when it is ready.
func serve(text string) error {
	var c nodeConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return errors.Wrap(err, childVariable)
	}
	ns, err := startServer(&c)
	if err != nil {
		return err
	}
	fmt.Println(ns.ClientURL())
	_, err = io.Copy(io.Discard, os.Stdin)
	ns.Shutdown()
	ns.WaitForShutdown()
	return err
}

// Process is a JetStream server in a process of its own, which is the test's
// binary once more. It uses sockets and real time, so it belongs outside
// bubbles.
type Process struct {
	t testing.TB
	c nodeConfig

	cmd   *exec.Cmd
	stdin io.Closer
	url   string
}

// StartProcess starts a server for the test, and stops it after the test. It
// listens; of the options, Listen is not looked at.
func StartProcess(t testing.TB, o *ServerOptions) *Process {
	t.Helper()
	p := newProcess(t, o.config(t))
	t.Cleanup(p.Stop)
	p.Start()
	return p
}

func newProcess(t testing.TB, c nodeConfig) *Process {
	c.Listen = true
	return &Process{t: t, c: c}
}

// Start starts the server on the store and port that it had before, and waits
// until it can be connected to.
func (p *Process) Start() {
	p.t.Helper()
	if err := p.start(); err != nil {
		p.t.Fatalf("start server %s: %v", p.c.Name, err)
	}
}

func (p *Process) start() error {
	config, err := json.Marshal(&p.c)
	if err != nil {
		return err
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), childVariable+"="+string(config))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		stdin.Close()
		return errors.CombineErrors(cmd.Wait(), err)
	}
	p.cmd, p.stdin, p.url = cmd, stdin, strings.TrimSpace(line)
	p.c.Port, err = portOf(p.url)
	return err
}

func portOf(address string) (int, error) {
	u, err := url.Parse(address)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(u.Port())
}

// Kill ends the process as kill -9 does, and waits until it is gone.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.stdin.Close()      // it may have ended
	_ = p.cmd.Wait()         // says that it was killed
	p.cmd = nil
}

// Stop ends the process in good order.
func (p *Process) Stop() {
	if p.cmd == nil {
		return
	}
	_ = p.stdin.Close() // it may have ended
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("server %s: %v", p.c.Name, err)
	}
	p.cmd = nil
}

// URL returns the server's address, which stays the same.
func (p *Process) URL() string { return p.url }

// Dir returns the store.
func (p *Process) Dir() string { return p.c.Dir }

// Connect returns a connection that lasts until the test ends and is made again
// whenever it breaks.
func (p *Process) Connect(name string, opts ...nats.Option) *nats.Conn {
	p.t.Helper()
	return connect(p.t, p.url, name, opts)
}

// connect connects over TCP.
func connect(t testing.TB, url, name string, opts []nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, connectOptions(name, opts)...)
	if err != nil {
		t.Fatalf("connect %s: %v", name, err)
	}
	t.Cleanup(nc.Close)
	return nc
}
