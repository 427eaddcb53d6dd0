package worker

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

const (
	// maxBook bounds the file of one instance's log, in bytes; there is one more,
	// with what came before.
	maxBook = 1 << 20
	// bookKept is how long the logs of an instance that runs here no more are kept.
	bookKept = 30 * 24 * time.Hour
	// readerQueue bounds lines that wait for a follower; what comes on top of it
	// is left out, and counted.
	readerQueue = 1024

	bookSuffix   = ".log"
	formerSuffix = ".log.1"
)

// shelf holds the books of a worker; a nil one has none. Files are opened below
// its folder only, whatever the names, which are ids, say.
type shelf struct {
	root *os.Root

	mu    sync.Mutex // guards books
	books map[place]*book
}

// newShelf opens the folder, which is made if it is not there, and removes what
// is old. It returns nil if the folder is "".
func newShelf(folder string) (*shelf, error) {
	if folder == "" {
		return nil, nil //nolint:nilnil // A nil shelf is one without books.
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, errors.Wrap(err, "make the folder for logs")
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, errors.Wrap(err, "open the folder for logs")
	}
	s := &shelf{root: root, books: make(map[place]*book)}
	s.prune(time.Now())
	return s, nil
}

func (s *shelf) close() {
	if s != nil {
		_ = s.root.Close()
	}
}

// prune removes the files that nothing was written to for long.
func (s *shelf) prune(now time.Time) {
	entries, _ := fs.ReadDir(s.root.FS(), ".") // what cannot be read is left alone
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, bookSuffix) && !strings.HasSuffix(name, formerSuffix) {
			continue
		}
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > bookKept {
			_ = s.root.Remove(name) // likewise
		}
	}
}

// open returns the book of a place.
func (s *shelf) open(at place) *book {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.books[at]
	if b == nil {
		b = &book{root: s.root, name: string(at.server) + "." + string(at.instance)}
		s.books[at] = b
	}
	return b
}

// find returns the book of a place, or nil if there is none.
func (s *shelf) find(at place) *book {
	_, badServer := events.ParseServerID(string(at.server))
	_, badInstance := events.ParseInstanceID(string(at.instance))
	if badServer != nil || badInstance != nil {
		return nil
	}
	s.mu.Lock()
	known := s.books[at] != nil
	s.mu.Unlock()
	if !known {
		if _, err := s.root.Lstat(string(at.server) + "." + string(at.instance) + bookSuffix); err != nil {
			return nil
		}
	}
	return s.open(at)
}

// book is the log of one instance: a file of lines, the file before it, and
// those who follow.
type book struct {
	root *os.Root
	name string

	mu      sync.Mutex // guards what follows, and the files
	file    *os.File   // nil while nobody writes
	size    int64
	readers []*follower
}

// write adds a line. Its error is that of the file; followers get the line all
// the same.
func (b *book) write(l *callwire.LogLine) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.readers {
		select {
		case r.lines <- *l:
		default:
			r.missed++
		}
	}
	data := callwire.AppendLogLine(nil, l)
	if err := b.ready(len(data)); err != nil {
		return err
	}
	n, err := b.file.Write(data)
	b.size += int64(n)
	return errors.Wrap(err, "write a log")
}

// ready opens the file with room for so many bytes.
func (b *book) ready(room int) error {
	if b.file != nil && b.size+int64(room) > maxBook {
		b.shut()
		if err := b.root.Rename(b.name+bookSuffix, b.name+formerSuffix); err != nil {
			return errors.Wrap(err, "begin a new log")
		}
	}
	if b.file != nil {
		return nil
	}
	f, err := b.root.OpenFile(b.name+bookSuffix, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Wrap(err, "open a log")
	}
	info, err := f.Stat()
	if err == nil && info.Size() > 0 {
		_, err = f.WriteString("\n") // a worker that was killed may have left half a line
	}
	if err != nil {
		_ = f.Close()
		return errors.Wrap(err, "go on with a log")
	}
	b.file, b.size = f, info.Size()+1
	return nil
}

func (b *book) shut() {
	if b.file != nil {
		_ = b.file.Close()
		b.file = nil
	}
}

// close gives the file back until the next line.
func (b *book) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shut()
}

// follower gets the lines that are written from now on.
type follower struct {
	lines  chan callwire.LogLine
	missed int // guarded by the book's mutex
}

// read returns the last lines of the last process, or of the one before, and a
// follower of what comes after them if that is wanted.
func (b *book) read(q *callwire.LogsRequest) (lines []callwire.LogLine, found bool, f *follower) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, suffix := range []string{formerSuffix, bookSuffix} {
		data, _ := b.root.ReadFile(b.name + suffix) // there may be none
		more, _ := callwire.DecodeLogLines(data)    // what is no line is left out
		lines = append(lines, more...)
	}
	lines, found = lastProcess(lines, q.Previous)
	if q.Tail >= 0 && len(lines) > q.Tail {
		lines = lines[len(lines)-q.Tail:]
	}
	if q.Follow {
		f = &follower{lines: make(chan callwire.LogLine, readerQueue)}
		b.readers = append(b.readers, f)
	}
	return lines, found, f
}

// forget ends a follower.
func (b *book) forget(f *follower) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readers = slices.DeleteFunc(b.readers, func(r *follower) bool { return r == f })
}

// takeMissed returns how many lines a follower did not get since it was last
// asked.
func (b *book) takeMissed(f *follower) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := f.missed
	f.missed = 0
	return n
}

// lastProcess returns the lines of the last process, or of the one before it.
func lastProcess(lines []callwire.LogLine, previous bool) (its []callwire.LogLine, found bool) {
	from := func(to int) int {
		i := to
		for i > 0 && lines[i-1].Epoch == lines[to-1].Epoch && lines[i-1].Attempt == lines[to-1].Attempt {
			i--
		}
		return i
	}
	to := len(lines)
	if previous && to > 0 {
		to = from(to)
	}
	if to == 0 {
		return nil, false
	}
	return lines[from(to):to], true
}
