//go:build real

package real

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/events"
)

// client is an MCP client of other make that is attached to the fleet.
type client interface {
	// tools lists the names.
	tools(ctx context.Context) ([]string, error)
	// changes tells when the client has been told that its list is old, and no more
	// than that.
	changes() <-chan struct{}
	// call returns the text of a result, and how often the tool told of progress.
	call(ctx context.Context, name string, arguments map[string]any) (text string, progress int, err error)
	// abort makes a call and cancels it after a while.
	abort(ctx context.Context, name string, arguments map[string]any, after time.Duration) error
	// read returns the text of a resource, and prompt that of a prompt.
	read(ctx context.Context, uri string) (string, error)
	prompt(ctx context.Context, name string, arguments map[string]string) (string, error)
}

// door is a way into the fleet.
type door struct {
	name string
	// Over HTTP it has a URL and a token, else a command.
	url, token string
	command    []string
}

// doors returns the fleet's MCP endpoint over HTTP, and as a child of the client.
func (f *fleet) doors() []door {
	f.t.Helper()
	data, err := os.ReadFile(filepath.Join(f.state, "toolfleet", string(events.DefaultFleet), "up.json"))
	var record struct {
		HTTP string `json:"http"`
	}
	if err == nil {
		err = json.Unmarshal(data, &record)
	}
	if err != nil || record.HTTP == "" {
		f.t.Fatalf("where HTTP is served: %s, %v", data, err)
	}
	token, err := f.run("token")
	if err != nil {
		f.t.Fatal(err)
	}
	return []door{
		{name: "http", url: record.HTTP + "/mcp", token: strings.TrimSpace(string(token))},
		{name: "stdio", command: []string{f.binary, "mcp"}},
	}
}

// attachment is one kind of client.
type attachment struct {
	name   string
	attach func(f *fleet, d door) client
}

var attachments = []attachment{
	{"typescript, handshake", func(f *fleet, d door) client { return attachTypeScript(f, d, "legacy") }},
	{"typescript, stateless", func(f *fleet, d door) client { return attachTypeScript(f, d, "auto") }},
	{"go", attachGo},
}

// TestClients attaches clients of other makes to a fleet of published servers, over
// HTTP and over their standard streams. All of them stay attached while servers are
// added, removed and killed.
func TestClients(t *testing.T) {
	p := newPublished(t, t.TempDir())
	f := start(t, p.children())
	f.ready()
	attached := make(map[string]client)
	for _, d := range f.doors() {
		for _, a := range attachments {
			t.Run(d.name+", "+a.name, func(t *testing.T) {
				f.t = t
				defer func() { f.t = t }()
				c := a.attach(f, d)
				checkClient(f, c, p)
				attached[d.name+", "+a.name] = c
			})
			f.t = t
		}
		checkInspector(f, d)
	}
	checkListChanged(f, p, attached)
	f.interrupt()
}

// checkClient has a client do what clients do.
func checkClient(f *fleet, c client, p *published) {
	ctx, cancel := context.WithTimeout(f.t.Context(), hang)
	defer cancel()
	want := sessionTools(f)
	if got, err := c.tools(ctx); err != nil || !slices.Equal(got, want) {
		f.t.Fatalf("it lists %v, %v; the session %v", got, err, want)
	}
	text, _, err := c.call(ctx, string(everything)+"__echo", map[string]any{"message": "hello"})
	if err != nil || !strings.Contains(text, "hello") {
		f.t.Errorf("echo answered %q, %v", text, err)
	}
	operation := string(everything) + "__" + longOperation
	text, progress, err := c.call(ctx, operation, map[string]any{"duration": 0.5, "steps": 5})
	if err != nil || !strings.Contains(text, "completed") || progress == 0 {
		f.t.Errorf("the long operation answered %q with %d notices of progress, %v", text, progress, err)
	}
	before, _ := os.ReadFile(p.cancellations(everything)) // none so far where it is not there
	began := time.Now()
	err = c.abort(ctx, operation, map[string]any{"duration": 20, "steps": 100}, 300*time.Millisecond)
	if took := time.Since(began); err == nil || took > 10*time.Second {
		f.t.Errorf("the aborted call ended after %v: %v", took, err)
	}
	f.eventually("the cancellation at the server", func() bool {
		told, err := os.ReadFile(p.cancellations(everything))
		return err == nil && len(told) > len(before)
	})
	if text, err := c.read(ctx, "demo://resource/static/document/features.md"); err != nil || !strings.Contains(text, "#") {
		f.t.Errorf("the resource is %q, %v", text, err)
	}
	if text, err := c.prompt(ctx, string(everything)+"__args-prompt", map[string]string{"city": "Paris"}); err != nil || !strings.Contains(text, "Paris") {
		f.t.Errorf("the prompt is %q, %v", text, err)
	}
}

// sessionTools returns the names of the tools that a session has.
func sessionTools(f *fleet) (names []string) {
	f.t.Helper()
	tools, _ := f.session.Tools()
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return names
}

// checkListChanged adds, removes and kills a server: every client is told, and
// lists what there is then.
func checkListChanged(f *fleet, p *published, attached map[string]client) {
	const added events.ServerID = "added"
	apply := func(servers ...server) {
		f.t.Helper()
		f.servers = servers
		f.configure()
		if _, err := f.run("apply", "-f", f.config); err != nil {
			f.t.Fatal(err)
		}
	}
	of := func(id events.ServerID) func(string) bool {
		return func(name string) bool { return strings.HasPrefix(name, string(id)+"__") }
	}
	apply(append(p.children(), server{ID: added, Command: p.node, Args: []string{p.file(memory)}, Env: map[string]string{
		"MEMORY_FILE_PATH": filepath.Join(p.dir, "added.jsonl"),
	}})...)
	f.all(attached, "an added server", func(names []string) bool { return slices.ContainsFunc(names, of(added)) })

	apply(p.children()...)
	f.all(attached, "a removed server", func(names []string) bool { return !slices.ContainsFunc(names, of(added)) })

	// The tools of one that is killed stay listed while it is expected back.
	processes := f.processesOf(memory)
	if len(processes) == 0 {
		f.t.Fatal("the memory server has no process")
	}
	for _, pid := range processes {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone with its parent
	}
	for _, name := range slices.Sorted(maps.Keys(attached)) {
		ctx, cancel := context.WithTimeout(f.t.Context(), hang)
		if text, _, err := attached[name].call(ctx, string(memory)+"__read_graph", map[string]any{}); err != nil || !strings.Contains(text, "entities") {
			f.t.Errorf("%s: the killed server's tool answered %q, %v", name, text, err)
		}
		cancel()
	}
	if _, err := f.run("stop", string(memory)); err != nil {
		f.t.Fatal(err)
	}
	f.all(attached, "a stopped server", func(names []string) bool { return !slices.ContainsFunc(names, of(memory)) })
}

// all waits until every client has been told of a change and lists what it should.
func (f *fleet) all(attached map[string]client, what string, want func([]string) bool) {
	f.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(attached)) {
		if err := told(f.t, attached[name], want); err != nil {
			f.t.Errorf("%s: %s: %v", name, what, err)
		}
	}
}

func told(t *testing.T, c client, want func([]string) bool) error {
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	for {
		select {
		case <-c.changes():
		case <-ctx.Done():
			names, err := c.tools(t.Context())
			return errors.Newf("it was not told in time; its list is %v, %v", names, err)
		}
		names, err := c.tools(ctx)
		if err != nil {
			return err
		}
		if want(names) {
			return nil
		}
	}
}
