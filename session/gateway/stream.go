package gateway

import (
	"net/http"
	"slices"
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
	begun   bool
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

// json answers with one message instead of a stream.
func (s *stream) json(status int, frame []byte) error {
	s.w.Header().Set("Content-Type", "application/json")
	s.w.WriteHeader(status)
	return s.write(frame)
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
