package gateway

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/guard"
)

const (
	// bodyLimit is how long a client has for the body of a request.
	bodyLimit = 30 * time.Second
	// largeBody is up to where a body has its memory before it has come.
	largeBody = 64 << 10
	// maxBodies bounds the bytes of bodies that have come and whose requests are not
	// over, and maxBodiesEach those of one principal. Either has room for the longest
	// message.
	maxBodies     = 64 << 20
	maxBodiesEach = maxBodies / 2
)

func newBodies(longest int) *guard.Shares {
	return guard.NewShares(max(maxBodies, 2*int64(longest)), max(maxBodiesEach, int64(longest)))
}

// errCrowded is why a body is not read any further.
var errCrowded = errors.New("there is no room for the message")

// upload is the body of a POST, whose bytes are its principal's until the request
// is over.
type upload struct {
	io.Reader
	principal string
	bodies    *guard.Shares
	taken     int64
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if !u.bodies.Take(u.principal, int64(n)) {
		return 0, errCrowded
	}
	u.taken += int64(n)
	return n, err
}

func (u *upload) over() { u.bodies.Give(u.principal, u.taken) }

// body reads the body of a POST, or has answered it. The caller calls over when the
// request is.
func (g *Gateway) body(w http.ResponseWriter, r *http.Request, who visitor) (body []byte, over func(), ok bool) {
	u := &upload{Reader: http.MaxBytesReader(w, r.Body, int64(g.options.MaxMessage)), principal: who.principal, bodies: g.bodies}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "the content type is not application/json", http.StatusUnsupportedMediaType)
		return nil, u.over, false
	}
	// Where the connection can; the server takes it off at the end of the body.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyLimit))
	body, err := readAll(u, r.ContentLength)
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		http.Error(w, "the message is too long", http.StatusRequestEntityTooLarge)
	case errors.Is(err, errCrowded):
		w.Header().Set("Connection", "close") // the server would wait for the rest
		busy(w, "too many long messages are in flight: wait for some to end")
	case err != nil:
		http.Error(w, "the message did not arrive", http.StatusBadRequest)
	}
	return body, u.over, err == nil
}

// readAll reads to the end of what is about so long, or of unknown length.
func readAll(r io.Reader, length int64) ([]byte, error) {
	var b bytes.Buffer
	if length > 0 && length <= largeBody {
		b.Grow(int(length) + bytes.MinRead)
	}
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}
