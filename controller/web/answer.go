package web

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	// writeLimit is how long a client may take for each chunk of an answer.
	writeLimit = 10 * time.Second
	writeChunk = 64 << 10
)

// answer answers a request with a value.
func answer(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		// unreachable unless a shape cannot be written.
		(&Problem{Status: http.StatusInternalServerError, Code: CodeHistory, Detail: "it cannot be written as JSON"}).write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	send(w, status, data)
}

// send sends an answer, as long as the client reads it.
func send(w http.ResponseWriter, status int, data []byte) {
	w.WriteHeader(status)
	p := newPen(w)
	defer p.end()
	_ = p.write(data) // a client that is gone needs none
}

// pen writes to a client for as long as it reads.
type pen struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func newPen(w http.ResponseWriter) *pen { return &pen{w, http.NewResponseController(w)} }

// write writes bytes. Its error is that the client is gone, or does not read.
func (p *pen) write(data []byte) error {
	for len(data) > 0 {
		n := min(len(data), writeChunk)
		p.limit(time.Now().Add(writeLimit))
		if _, err := p.w.Write(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// flush sends what was written.
func (p *pen) flush() error {
	p.limit(time.Now().Add(writeLimit))
	return p.control.Flush()
}

// end takes the limit off the connection, which may carry more.
func (p *pen) end() { p.limit(time.Time{}) }

// limit bounds the next write, where the connection can do so.
func (p *pen) limit(until time.Time) { _ = p.control.SetWriteDeadline(until) }
