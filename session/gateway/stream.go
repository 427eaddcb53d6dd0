package gateway

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/cockroachdb/errors"
)

const (
	// heartbeat is the longest silence of a stream: proxies give up on longer ones,
	// from 30 s on.
	heartbeat = 15 * time.Second
	// writeLimit is for each chunk of bytes that a client is sent.
	writeLimit = 10 * time.Second
	writeChunk = 64 << 10
)

// stream writes server-sent events. Nothing is written before the first.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	// admits says whether a stream that lasts goes on, or is nil.
	admits func() bool
	begun  bool
}

func newStream(w http.ResponseWriter) *stream {
	return &stream{w: w, control: http.NewResponseController(w)}
}

// begin sends the headers.
func (s *stream) begin() error {
	if s.begun {
		return nil
	}
	s.begun = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy would hold events back
	s.w.WriteHeader(http.StatusOK)
	return s.write()
}

// first begins a stream with some messages or, without any, a comment.
func (s *stream) first(frames [][]byte) error {
	if len(frames) == 0 {
		return s.comment()
	}
	return s.events(frames)
}

// event sends a message, which is one line.
func (s *stream) event(frame []byte) error {
	if err := s.begin(); err != nil {
		return err
	}
	return s.write([]byte("data: "), frame, []byte("\n\n"))
}

func (s *stream) events(frames [][]byte) error {
	for _, f := range frames {
		if err := s.event(f); err != nil {
			return err
		}
	}
	return nil
}

// comment sends something that readers leave out.
func (s *stream) comment() error {
	if err := s.begin(); err != nil {
		return err
	}
	return s.write([]byte(":\n\n"))
}

// follow writes notifications until no more are pushed, or the queue is over
// because they are not read, or its reader is not admitted any more.
func (s *stream) follow(q *queue, last <-chan struct{}) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	ask := time.NewTicker(heartbeat) // however much there is to write
	defer ask.Stop()
	for {
		select {
		case <-q.wake:
			beat.Reset(heartbeat)
			if err := s.events(q.take()); err != nil {
				return err
			}
		case <-beat.C:
			if err := s.comment(); err != nil {
				return err
			}
		case <-ask.C:
			if s.admits != nil && !s.admits() {
				return errRefused
			}
		case <-q.over:
			return errSlow
		case <-last:
			return s.events(q.take())
		}
	}
}

// json answers with one message instead of a stream, in one write.
func (s *stream) json(status int, frame []byte) error {
	h := s.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(frame)))
	s.w.WriteHeader(status)
	if len(frame) > writeChunk {
		return s.write(frame)
	}
	if err := s.limit(time.Now().Add(writeLimit)); err != nil {
		return err
	}
	if _, err := s.w.Write(frame); err != nil {
		return errors.Wrap(err, "write to the client")
	}
	return s.control.Flush()
}

// write sends bytes, as long as the client reads them.
func (s *stream) write(parts ...[]byte) error {
	for _, part := range parts {
		for chunk := range slices.Chunk(part, writeChunk) {
			if err := s.limit(time.Now().Add(writeLimit)); err != nil {
				return err
			}
			if _, err := s.w.Write(chunk); err != nil {
				return errors.Wrap(err, "write to the client")
			}
		}
	}
	if err := s.limit(time.Now().Add(writeLimit)); err != nil {
		return err
	}
	return s.control.Flush()
}

// end takes the limit off the connection, which may carry more.
func (s *stream) end() { _ = s.limit(time.Time{}) } // a connection that is gone has none

// limit bounds the next write where the connection can do so; elsewhere only the
// queue is bounded.
func (s *stream) limit(until time.Time) error {
	if err := s.control.SetWriteDeadline(until); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return errors.Wrap(err, "limit a write to the client")
	}
	return nil
}
