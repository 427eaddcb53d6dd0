package worker

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

// logs asks the worker for logs, as soon as it answers, and gives each line to
// take.
func (r *rig) askLogs(ctx context.Context, q callwire.LogsRequest, take func(callwire.LogLine)) callwire.LogsEnd {
	r.t.Helper()
	var h CallHandler
	var done func()
	eventually(r.t, "logs to be served", func() bool {
		h, done = r.calls.begin(events.LogsSubject("f", testWorker))
		return h != nil
	})
	defer done()
	arguments, err := json.Marshal(q)
	if err != nil {
		r.t.Fatal(err)
	}
	result, err := h(ctx, &callwire.Request{ID: "logs", Tool: callwire.LogsTool, Arguments: arguments}, func(k callwire.FrameKind, data []byte) {
		lines, err := callwire.DecodeLogLines(data)
		if k != callwire.Log || err != nil {
			r.t.Errorf("%s frame %s: %v", k, data, err)
		}
		for _, l := range lines {
			take(l)
		}
	})
	var end callwire.LogsResult
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			r.t.Errorf("logs: %v", err)
		}
	} else if err := json.Unmarshal(result, &end); err != nil {
		r.t.Errorf("result %s: %v", result, err)
	}
	return end.End
}

// read returns lines as "attempt stream text".
func (r *rig) readLogs(q callwire.LogsRequest) ([]string, callwire.LogsEnd) {
	r.t.Helper()
	var lines []string
	end := r.askLogs(r.t.Context(), q, func(l callwire.LogLine) {
		lines = append(lines, fmt.Sprintf("%d %s %s", l.Attempt, l.Stream, l.Text))
	})
	return lines, end
}

func allLogs(s events.ServerID) callwire.LogsRequest {
	return callwire.LogsRequest{Server: s, Instance: "0", Tail: -1}
}

// T10: what a server tells is kept for people to read, on its worker, without
// the secrets that it was given.
func TestWorkerKeepsLogs(t *testing.T) {
	r := newRig(t)
	folder := filepath.Join(t.TempDir(), "logs")
	r.options.Logs = folder
	env := map[string]string{"CANARY": "canary-of-the-environment"}
	r.options.Env = func(name string) (string, bool) {
		if v, ok := env[name]; ok {
			return v, true
		}
		return os.LookupEnv(name)
	}
	r.secrets["${secret:s/env.KEY#1}"] = "-----BEGIN KEY-----\ncanary-first-line\ncanary-second-line\n-----END KEY-----\n"
	r.start()
	d := mcptest.Script{
		Tools:  mcptest.Special,
		Stderr: "  indented canary-of-the-environment\ncanary-first-line\n\x1b[31mcanary-of-\x1b[0mthe-environment\n",
	}.Definition(t)
	d.Env["KEY"], d.Env["PLAIN"] = "${secret:s/env.KEY#1}", "${CANARY}"
	r.run("s", d)
	first := r.see("s", 0, ready)
	long := strings.Repeat("x", maxLogLine+len("canary-of-the-env")) // a line that is cut within the secret
	for tool, arguments := range map[string]string{
		"log":  `{"text":"told canary-second-line\nand more"}`,
		"tell": `{"text":"` + long + `canary-of-the-environment\nno end"}`,
	} {
		if got := r.call(t.Context(), "s", tool, arguments); got.err != nil {
			t.Fatalf("%s: %v", tool, got.err)
		}
	}
	var got []string
	eventually(t, "the lines", func() bool {
		got, _ = r.readLogs(allLogs("s"))
		return len(got) >= 7
	})
	want := []string{
		"1 worker attempt 1 begins", "1 stderr   indented [redacted]", "1 stderr [redacted]", "1 stderr [redacted]",
		"1 mcp warning: mcptest: told [redacted]", "1 mcp and more",
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%q is not among %q", line, got)
		}
	}
	if strings.Contains(strings.Join(got, "\n"), "canary") {
		t.Errorf("a secret is on the bus: %q", got)
	}
	if n := slices.IndexFunc(got, func(l string) bool { return strings.HasPrefix(l, "1 stderr xxx") }); n < 0 || len(got[n]) > maxLogLine+20 {
		t.Errorf("the long line is %d of %q", n, got)
	}

	// The next process is another one, and what it follows stays readable.
	_ = r.call(t.Context(), "s", "die", "{}")
	r.see("s", first[0].Seq, ready)
	eventually(t, "the next process's lines", func() bool {
		got, _ = r.readLogs(allLogs("s"))
		return len(got) == 4
	})
	if got[0] != "2 worker attempt 2 begins" {
		t.Errorf("the last process said %q", got)
	}
	q := allLogs("s")
	q.Previous, q.Tail = true, 3
	got, end := r.readLogs(q)
	if len(got) != 3 || got[1] != "1 stderr no endfatal: last words" || got[2] != "1 worker attempt 1 ended: exited with status 3" || end != callwire.LogsComplete {
		t.Errorf("before it: %q, %s", got, end)
	}
	if err := r.finish(); err != nil {
		t.Error(err)
	}

	names := ""
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		names += name + " " + info.Mode().String()
		data, err := os.ReadFile(filepath.Join(folder, name))
		if strings.Contains(string(data), "canary") {
			t.Errorf("a secret is in %s:\n%s", name, data)
		}
		return err
	})
	if err != nil || names != "s.0.log -rw-------" {
		t.Errorf("files %s, %v", names, err)
	}
	if all := r.history(); strings.Contains(all, "canary") {
		t.Errorf("a secret is in the history:\n%s", all)
	}
}

// Whoever follows sees every process, also after the end of one, until the
// worker is gone.
func TestWorkerLogsAreFollowed(t *testing.T) {
	r := newRig(t)
	r.options.Logs = t.TempDir()
	r.start()
	r.run("s", mcptest.Script{Tools: mcptest.Special}.Definition(t))
	first := r.see("s", 0, ready)
	var mu sync.Mutex
	var seen []string
	has := func(text string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Contains(seen, text)
		}
	}
	q := allLogs("s")
	q.Follow = true
	ends := make(chan callwire.LogsEnd, 1)
	go func() {
		ends <- r.askLogs(context.WithoutCancel(t.Context()), q, func(l callwire.LogLine) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprintf("%d %s", l.Attempt, l.Text))
		})
	}()
	eventually(t, "what was said before", has("1 attempt 1 begins"))
	_ = r.call(t.Context(), "s", "die", "{}")
	eventually(t, "the last words", has("1 fatal: last words"))
	r.see("s", first[0].Seq, ready)
	eventually(t, "the next process", has("2 attempt 2 begins"))

	ctx, cancel := context.WithCancel(t.Context())
	other := make(chan callwire.LogsEnd, 1)
	go func() { other <- r.askLogs(ctx, q, func(callwire.LogLine) {}) }()
	cancel()
	if end := <-other; end != "" {
		t.Errorf("one that was cancelled ended with %s", end)
	}
	if err := r.finish(); err != nil {
		t.Error(err)
	}
	if end := <-ends; end != callwire.LogsStopped || !has("2 attempt 2 ended: closed")() {
		t.Errorf("it ended with %q: %q", end, seen)
	}
}

// A server that floods its stderr is kept from nothing, and its log stays small
// and says what is missing.
func TestWorkerLogFlood(t *testing.T) {
	r := newRig(t)
	folder := t.TempDir()
	r.options.Logs = folder
	r.start()
	r.run("s", mcptest.Script{Tools: mcptest.Special}.Definition(t))
	r.see("s", 0, ready)
	if got := r.call(t.Context(), "s", "tell", `{"text":"flood flood flood\n","times":200000}`); got.err != nil {
		t.Fatalf("tell: %+v", got.err)
	}
	dropped := 0
	eventually(t, "the count of what was dropped", func() bool {
		lines, _ := r.readLogs(callwire.LogsRequest{Server: "s", Instance: "0", Tail: 1})
		return len(lines) == 1 && strings.Contains(lines[0], "were dropped") &&
			errors.Is(scan(lines[0], "1 worker %d lines were dropped", &dropped), nil)
	})
	lines, _ := r.readLogs(allLogs("s"))
	kept := 0
	for _, l := range lines {
		var n int
		if l == "1 stderr flood flood flood" {
			kept++
		} else if scan(l, "1 worker %d lines were dropped", &n) == nil && l != lines[len(lines)-1] {
			dropped += n
		}
	}
	if kept < logBurst/2 || kept > logBurst+2000 || kept+dropped != 200_000 {
		t.Errorf("%d lines were kept and %d dropped", kept, dropped)
	}
}

func scan(line, format string, n *int) error {
	_, err := fmt.Sscanf(line, format, n)
	return err
}

func TestWorkerWithoutLogs(t *testing.T) {
	r := newRig(t)
	r.start()
	if lines, end := r.readLogs(allLogs("s")); len(lines) > 0 || end != callwire.LogsOff {
		t.Errorf("without a folder: %q, %s", lines, end)
	}
	h, end := r.calls.begin(events.LogsSubject("f", testWorker))
	defer end()
	var e *callwire.Error
	if _, err := h(t.Context(), &callwire.Request{Tool: "delete"}, nil); !errors.As(err, &e) || e.Outcome != callwire.NotExecuted {
		t.Errorf("another request: %v", err)
	}
}

func testShelf(t *testing.T) (*shelf, string) {
	t.Helper()
	folder := t.TempDir()
	s, err := newShelf(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s, folder
}

// No id leads out of the folder, neither by its name nor by a link.
func TestShelfStaysInItsFolder(t *testing.T) {
	s, folder := testShelf(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte(`{"text":"outside"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(folder, "s.0.log")); err != nil {
		t.Fatal(err)
	}
	for _, at := range []place{{"../outside", "0"}, {"..", "0"}, {"s", "../0"}, {"", ""}, {"a.b", "0"}, {"absent", "0"}} {
		if b := s.find(at); b != nil {
			t.Errorf("%v has the book %s", at, b.name)
		}
	}
	if lines, found, _ := s.open(place{"s", "0"}).read(&callwire.LogsRequest{Tail: -1}); found {
		t.Errorf("a link was read: %+v", lines)
	}
	if err := s.open(place{"s", "0"}).write(&callwire.LogLine{Text: "x"}); err == nil {
		t.Error("a link was written to")
	}
	if err := s.open(place{"../../escaped", "0"}).write(&callwire.LogLine{Text: "x"}); err == nil {
		t.Error("a file was written elsewhere")
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != `{"text":"outside"}` {
		t.Errorf("outside: %s, %v", data, err)
	}
}

// A book has two files of bounded size, goes on where an earlier worker left it,
// and outlives half a line.
func TestBookIsBounded(t *testing.T) {
	s, folder := testShelf(t)
	if err := os.WriteFile(filepath.Join(folder, "s.0.log"), []byte(`{"time":"2026-01-02T03:04:05Z","epoch":1,"attempt":1,"stream":"stderr","text":"before"}`+"\n"+`{"time":"20`), 0o600); err != nil {
		t.Fatal(err)
	}
	b := s.find(place{"s", "0"})
	line := callwire.LogLine{Epoch: 1, Attempt: 1, Stream: callwire.Stderr, Text: "after"}
	if err := b.write(&line); err != nil {
		t.Fatal(err)
	}
	lines, found, _ := b.read(&callwire.LogsRequest{Tail: -1})
	if !found || len(lines) != 2 || lines[0].Text != "before" || lines[1].Text != "after" {
		t.Errorf("lines %+v", lines)
	}
	line.Attempt, line.Text = 2, strings.Repeat("y", maxLogLine)
	for range 3 * maxBook / maxLogLine {
		if err := b.write(&line); err != nil {
			t.Fatal(err)
		}
	}
	b.close()
	for _, name := range []string{"s.0.log", "s.0.log.1"} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Size() > maxBook || info.Size() < maxBook/2 && name != "s.0.log" {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if lines, found, _ := b.read(&callwire.LogsRequest{Tail: 5}); !found || len(lines) != 5 {
		t.Errorf("found %v, %d lines", found, len(lines))
	}
	if lines, found, _ := b.read(&callwire.LogsRequest{Tail: -1, Previous: true}); found {
		t.Errorf("what is no more there: %d lines", len(lines))
	}
}

func TestShelfForgetsWhatIsOld(t *testing.T) {
	s, folder := testShelf(t)
	now := time.Now()
	for name, age := range map[string]time.Duration{"old.0.log": bookKept + time.Hour, "old.0.log.1": bookKept + time.Hour, "new.0.log": time.Hour, "other": 2 * bookKept} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	s.prune(now)
	left, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(left) != 2 || filepath.Base(left[0]) != "new.0.log" || filepath.Base(left[1]) != "other" {
		t.Errorf("left %v, %v", left, err)
	}
}

// A follower that is too slow misses lines, holds up nobody, and is told.
func TestSlowFollowers(t *testing.T) {
	s, _ := testShelf(t)
	b := s.open(place{"s", "0"})
	_, _, f := b.read(&callwire.LogsRequest{Follow: true})
	for range readerQueue + 7 {
		if err := b.write(&callwire.LogLine{Epoch: 1, Text: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var got []callwire.LogLine
	_, err := b.follow(ctx, nil, f, func(_ callwire.FrameKind, data []byte) {
		lines, _ := callwire.DecodeLogLines(data)
		if got = append(got, lines...); len(got) > readerQueue {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || len(got) != readerQueue+1 || got[readerQueue].Text != "7 lines were left out: they came too fast" || got[readerQueue].Stream != callwire.OfWorker {
		t.Errorf("%d lines, the last %+v: %v", len(got), got[len(got)-1], err)
	}
	b.forget(f)
	if len(b.readers) != 0 {
		t.Error("it is not forgotten")
	}
}

// T10: a line that is cut ends before the secret that it was cut in, wherever
// that is.
func TestCutLinesHoldNoHalfSecrets(t *testing.T) {
	const secret = "canary-0123456789"
	s := newScrubber([]string{secret})
	for at := range 60 {
		var got string
		split := lineSplitter{limit: maxLogLine + s.longest, take: func(line []byte, cut bool) { got = s.line(string(line), cut) }}
		// Those before it get shorter, and so move what follows into the line.
		text := strings.Repeat(secret, 50) + strings.Repeat("x", maxLogLine-50*len(secret)-30+at) + secret + "\n"
		for chunk := range slices.Chunk([]byte(text), 1000) {
			_, _ = split.Write(chunk)
		}
		if strings.Contains(got, "canary") || !strings.HasPrefix(got, redacted) {
			t.Errorf("at %d: …%s", at, got[max(0, len(got)-40):])
		}
	}
}
