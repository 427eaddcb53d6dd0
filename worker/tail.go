package worker

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync"
)

const (
	// maxTail is how much of a stderr is kept, twice what an event holds: text
	// shrinks when it is cleaned.
	maxTail = 8 << 10
	// maxStderrTail is how much of it an event holds.
	maxStderrTail = 4 << 10

	// longestSecret is how much of a line that has no beginning is dropped.
	longestSecret = 1 << 10

	// The first lines on stdout that are no messages help to see what is wrong.
	strayLines  = 3
	strayLength = 1 << 10
)

// tail keeps the end of what is written to it.
type tail struct {
	// lines, if set, gets all of it, too.
	lines *lineSplitter

	mu  sync.Mutex // guards buf and cut
	buf []byte
	cut bool
}

// copy reads until the reader ends, so that the writer on its other side never
// waits.
func (t *tail) copy(r io.Reader) {
	if t.lines == nil {
		_, _ = io.Copy(t, r)
		return
	}
	_, _ = io.Copy(io.MultiWriter(t, t.lines), r)
	t.lines.flush()
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - maxTail; over > 0 {
		t.buf, t.cut = append(t.buf[:0], t.buf[over:]...), true
	}
	return len(p), nil
}

// String returns the end as whole lines: half a line could hold half a secret.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.buf
	if t.cut {
		line := bytes.IndexByte(b, '\n') + 1
		if line == 0 {
			line = longestSecret
		}
		b = b[line:]
	}
	return string(b)
}

// strays counts lines on stdout that are no messages.
type strays struct {
	mu    sync.Mutex // guards all fields
	total int
	row   int
	first []string
}

// add returns how many there were in a row.
func (s *strays) add(line []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total++
	s.row++
	if len(s.first) < strayLines {
		s.first = append(s.first, string(line[:min(len(line), strayLength)]))
	}
	return s.row
}

// reset says that a message came.
func (s *strays) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.row = 0
}

// String describes them, or is empty when there were none.
func (s *strays) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total == 0 {
		return ""
	}
	return strconv.Itoa(s.total) + " lines on stdout are no MCP messages, first: " + strings.Join(s.first, " | ")
}
