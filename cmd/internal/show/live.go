package show

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Live is the part of a terminal's screen that is drawn again and again. What
// others write with [Live.Above] appears above it.
type Live struct {
	w       io.Writer
	columns int

	mu    sync.Mutex // guards lines, and w
	lines []string   // that are on the screen
}

// NewLive returns nil if w is no terminal on which something can be drawn again.
func NewLive(w io.Writer) *Live {
	columns, ok := Width(w)
	if !ok {
		return nil
	}
	return &Live{w: w, columns: columns}
}

// Draw puts lines in the place of those that were drawn before.
func (l *Live) Draw(lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Equal(l.lines, lines) {
		return
	}
	l.erase()
	l.lines = lines
	l.draw()
}

// Leave leaves on the screen what is drawn.
func (l *Live) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = nil
}

func (l *Live) erase() {
	if n := len(l.lines); n > 0 {
		fmt.Fprintf(l.w, "\x1b[%dA\x1b[J", n)
	}
}

func (l *Live) draw() {
	for _, line := range l.lines {
		fmt.Fprintln(l.w, cutPainted(line, l.columns))
	}
}

// Above returns a writer to w, which shares its screen. What it is given are
// whole lines.
func (l *Live) Above(w io.Writer) io.Writer {
	if l == nil {
		return w
	}
	return above{l, w}
}

type above struct {
	l *Live
	w io.Writer
}

func (a above) Write(p []byte) (int, error) {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	a.l.erase()
	defer a.l.draw()
	return a.w.Write(p)
}

// cutPainted returns the beginning of a line that may be coloured, at most that
// many columns.
func cutPainted(line string, columns int) string {
	var b strings.Builder
	shown, painted := 0, false
	for line != "" {
		if end := strings.IndexByte(line, 'm'); line[0] == '\x1b' && end > 0 {
			painted = line[:end+1] != unpaint
			b.WriteString(line[:end+1])
			line = line[end+1:]
			continue
		}
		r, size := utf8.DecodeRuneInString(line)
		if shown++; shown > columns {
			break
		}
		b.WriteRune(r)
		line = line[size:]
	}
	if painted {
		b.WriteString(unpaint)
	}
	return b.String()
}
