package worker

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events/callwire"
)

const (
	// maxLogLine bounds the text of a line, in bytes.
	maxLogLine = 4 << 10
	// maxLogMessage bounds an MCP log message, in bytes.
	maxLogMessage = 256 << 10
	// logBurst is how many lines of a connection are kept at once, and how many
	// wait to be written; logRate how many a second in the long run. A server that
	// writes more is at fault, and would push out what tells why.
	logBurst = 500
	logRate  = 100
	// dropNotice is how long dropped lines are counted before that is written.
	dropNotice = time.Second
)

// recorder writes what one connection says into the book of its instance. Nobody
// waits for it: what is too much is dropped and counted. A nil recorder records
// nothing.
type recorder struct {
	book *book
	log  *slog.Logger
	line callwire.LogLine // what all lines have in common

	queue chan spoken
	drops chan struct{} // holds one signal that lines were dropped
	done  chan struct{}

	mu      sync.Mutex // guards what follows
	closed  bool
	allowed float64
	since   time.Time
	dropped int
}

// spoken is what was said, as it was said: it is cleaned by whoever writes it.
type spoken struct {
	at     time.Time
	stream callwire.LogStream
	text   string
	cut    bool // it went on
	scrub  scrubber
}

// newRecorder returns a recorder that is to be closed.
func newRecorder(b *book, ref Ref, log *slog.Logger) *recorder {
	r := &recorder{
		book: b, log: log, line: callwire.LogLine{Epoch: ref.Epoch, Attempt: ref.Attempt},
		queue: make(chan spoken, logBurst), drops: make(chan struct{}, 1), done: make(chan struct{}),
		allowed: logBurst, since: time.Now(),
	}
	go r.run()
	return r
}

// run writes until it is closed.
func (r *recorder) run() {
	defer close(r.done)
	defer r.book.close()
	var soon <-chan time.Time
	healthy := true
	write := func(s *spoken) {
		l := r.line
		l.Time, l.Stream, l.Text = s.at, s.stream, s.scrub.line(s.text, s.cut)
		if err := r.book.write(&l); err != nil && healthy {
			r.log.Warn("log of an instance not written", "err", err)
			healthy = false // once is enough
		}
	}
	for {
		select {
		case s, ok := <-r.queue:
			if !ok {
				r.tellDropped(write)
				return
			}
			write(&s)
		case <-r.drops:
			if soon == nil {
				soon = time.After(dropNotice)
			}
		case <-soon:
			soon = nil
			r.tellDropped(write)
		}
	}
}

func (r *recorder) tellDropped(write func(*spoken)) {
	r.mu.Lock()
	n := r.dropped
	r.dropped = 0
	r.mu.Unlock()
	if n > 0 {
		write(&spoken{at: time.Now(), stream: callwire.OfWorker, text: strconv.Itoa(n) + " lines were dropped: they came too fast"})
	}
}

// close writes what was said last, and returns when that is done, or at the end
// of limit.
func (r *recorder) close(limit time.Duration) {
	if r == nil {
		return
	}
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.queue)
	}
	r.mu.Unlock()
	await(r.done, nil, limit)
}

// say records text, without waiting.
func (r *recorder) say(stream callwire.LogStream, scrub scrubber, text []byte, cut bool) {
	if r == nil {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.allowed = min(logBurst, r.allowed+now.Sub(r.since).Seconds()*logRate)
	r.since = now
	if r.allowed >= 1 {
		select {
		case r.queue <- spoken{at: now, stream: stream, text: string(text), cut: cut, scrub: scrub}:
			r.allowed--
			return
		default:
		}
	}
	r.dropped++
	select {
	case r.drops <- struct{}{}:
	default:
	}
}

// note records words of ours, or such as are scrubbed already.
func (r *recorder) note(text string) { r.say(callwire.OfWorker, scrubber{}, []byte(text), false) }

// message records the parameters of an MCP log notification.
func (r *recorder) message(scrub scrubber, params jsontext.Value) {
	if r == nil {
		return
	}
	if len(params) > maxLogMessage {
		r.note("a log message of " + strconv.Itoa(len(params)) + " bytes was left out")
		return
	}
	var p struct {
		Level  string         `json:"level"`
		Logger string         `json:"logger"`
		Data   jsontext.Value `json:"data"`
	}
	lenient := json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if json.Unmarshal(params, &p, lenient) != nil {
		return
	}
	var data string
	if json.Unmarshal(p.Data, &data, lenient) != nil {
		data = string(p.Data)
	}
	head := p.Level + ": "
	if p.Logger != "" {
		head += p.Logger + ": "
	}
	lines := lineSplitter{limit: maxLogLine + scrub.longest, take: func(line []byte, cut bool) {
		r.say(callwire.MCPLog, scrub, line, cut)
	}}
	_, _ = lines.Write([]byte(head + data)) // never fails
	lines.flush()
}

// stderr returns what takes a process's stderr, or nil.
func (r *recorder) stderr(scrub scrubber) *lineSplitter {
	if r == nil {
		return nil
	}
	return &lineSplitter{limit: maxLogLine + scrub.longest, take: func(line []byte, cut bool) {
		r.say(callwire.Stderr, scrub, line, cut)
	}}
}

// lineSplitter is a writer that hands on each line, as far as that goes within
// the limit.
type lineSplitter struct {
	limit int
	take  func(line []byte, cut bool)

	line []byte
	cut  bool
}

// Write never fails.
func (s *lineSplitter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte("\n"))
		if room := s.limit - len(s.line); len(part) > room {
			part, s.cut = part[:room], true
		}
		s.line = append(s.line, part...)
		if ended {
			s.hand()
		}
		rest = after
	}
	return len(p), nil
}

func (s *lineSplitter) hand() {
	s.take(s.line, s.cut)
	s.line, s.cut = s.line[:0], false
}

// flush hands on a last line that has no end.
func (s *lineSplitter) flush() {
	if len(s.line) > 0 {
		s.hand()
	}
}

// line makes a line of a server fit for a log, with its indentation. One that
// was cut may end with a part of a secret, which is left out with as much text as
// the longest one has.
func (s scrubber) line(t string, cut bool) string {
	indent := t[:len(t)-len(strings.TrimLeft(t, " \t"))]
	t = s.scrub(t)
	if cut {
		t = t[:max(0, len(t)-s.longest)]
	}
	// Once more: what is not seen may have stood within a secret. The text may be
	// longer after that.
	t = clean(strings.ReplaceAll(s.scrub(clean(t, maxLogLine)), "\n", " "), maxLogLine)
	return indent[:min(len(indent), maxLogLine-len(t), maxIndent)] + t
}

// maxIndent bounds the indentation of a line.
const maxIndent = 80
