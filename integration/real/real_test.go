//go:build real

package real

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/toolfleet/toolfleet/events"
)

// The servers of the fleet. The remote one is the first one's program, and
// belongs to the test.
const (
	everything events.ServerID = "everything"
	files      events.ServerID = "filesystem"
	memory     events.ServerID = "memory"
	overHTTP   events.ServerID = "remote"
)

// published finds the programs of package-lock.json.
type published struct {
	t    *testing.T
	node string
	dir  string // of what the servers read and write
}

func newPublished(t *testing.T, dir string) *published {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("these tests need node: %v", err)
	}
	return &published{t, node, dir}
}

// file returns the program of a server.
func (p *published) file(id events.ServerID) string {
	p.t.Helper()
	path := p.here("node_modules", "@modelcontextprotocol", "server-"+string(id), "dist", "index.js")
	if _, err := os.Stat(path); err != nil {
		p.t.Fatalf("run npm ci --ignore-scripts in integration/real: %v", err)
	}
	return path
}

func (p *published) here(path ...string) string {
	p.t.Helper()
	whole, err := filepath.Abs(filepath.Join(path...))
	if err != nil {
		p.t.Fatal(err)
	}
	return whole
}

// aided returns the server that offers something of everything, over a transport,
// with an ear in it.
func (p *published) aided(id events.ServerID, transport string) server {
	p.t.Helper()
	return server{
		ID: id, Command: p.node, Args: []string{"--import", p.here("testdata", "ear.mjs"), p.file(everything), transport},
		Env: map[string]string{"CANCELLATIONS": p.cancellations(id)},
	}
}

// cancellations is the file in which an aided server has a line for each
// cancellation that it was sent.
func (p *published) cancellations(id events.ServerID) string {
	return filepath.Join(p.dir, string(id)+".cancelled")
}

// children returns the servers over stdio.
func (p *published) children() []server {
	p.t.Helper()
	return []server{
		p.aided(everything, "stdio"),
		{ID: files, Command: p.node, Args: []string{p.file(files), p.dir}},
		{ID: memory, Command: p.node, Args: []string{p.file(memory)}, Env: map[string]string{
			"MEMORY_FILE_PATH": filepath.Join(p.dir, "memory.jsonl"),
		}},
	}
}

// TestPublishedServers is one fleet's life. Its steps follow one another; after
// one that fails there is nothing to learn from the next.
func TestPublishedServers(t *testing.T) {
	p := newPublished(t, t.TempDir())
	r := startRemote(t, p.aided(overHTTP, "streamableHttp"))
	f := start(t, append(p.children(), r.server()))
	f.ready()

	for _, step := range []struct {
		name  string
		check func(*fleet)
	}{
		{"tools are those of a bare client", checkTools},
		{"calls by the command line", func(f *fleet) { checkCalls(f, p.dir) }},
		{"structured results", checkStructured},
		{"progress", checkProgress},
		{"an aborted call", func(f *fleet) { checkAbort(f, p) }},
		{"a killed child comes back", checkKilledChild},
		{"a killed remote server comes back", func(f *fleet) { checkKilledRemote(f, r) }},
		{"a killed fleet comes back", checkKilledFleet},
		{"a removed server is gone", checkRemoved},
		{"history, views and session agree", checkInvariants},
		{"Ctrl-C leaves nothing", func(f *fleet) { checkStop(f, r) }},
	} {
		passed := t.Run(step.name, func(t *testing.T) {
			f.t = t
			step.check(f)
		})
		if f.t = t; !passed {
			return
		}
	}
}
