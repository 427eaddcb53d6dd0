package invariants

import (
	"bytes"
	"strconv"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
)

// Publish is a message of a client, as it is on the wire.
type Publish struct {
	Subject, Reply string
	Header         nats.Header
	Data           []byte
}

// frame is one operation of the NATS protocol, whole.
type frame []byte

// frames cuts a stream into frames.
type frames struct{ buf []byte }

func (s *frames) add(b []byte) { s.buf = append(s.buf, b...) }

// next returns the first whole frame, or nil.
func (s *frames) next() frame {
	n := bytes.IndexByte(s.buf, '\n') + 1
	if n == 0 {
		return nil
	}
	switch w := frame(s.buf[:n]).words(); w[0] {
	case "PUB", "HPUB", "MSG", "HMSG":
		size, err := strconv.Atoi(w[len(w)-1])
		if err != nil {
			break
		}
		if n += size + len("\r\n"); n > len(s.buf) {
			return nil
		}
	}
	f := frame(bytes.Clone(s.buf[:n]))
	s.buf = s.buf[n:]
	return f
}

// words are those of the first line; there is at least one.
func (f frame) words() []string {
	line, _, _ := bytes.Cut(f, []byte("\n"))
	words := []string{}
	for w := range bytes.FieldsSeq(line) {
		words = append(words, string(w))
	}
	if len(words) == 0 {
		words = []string{""}
	}
	return words
}

// publish returns the message that a client's frame publishes, or nil.
func (f frame) publish() (*Publish, error) {
	w := f.words()
	p := &Publish{}
	switch {
	case w[0] == "PUB" && (len(w) == 3 || len(w) == 4):
		p.Data = f.payload(w)
	case w[0] == "HPUB" && (len(w) == 4 || len(w) == 5):
		var err error
		if p.Header, p.Data, err = f.split(w); err != nil {
			return nil, err
		}
		w = w[:len(w)-1]
	default:
		return nil, nil
	}
	p.Subject = w[1]
	if len(w) == 4 {
		p.Reply = w[2]
	}
	return p, nil
}

// delivery returns subject and data of a message to a client.
func (f frame) delivery() (subject string, data []byte, ok bool) {
	w := f.words()
	switch {
	case w[0] == "MSG" && len(w) >= 4:
		return w[1], f.payload(w), true
	case w[0] == "HMSG" && len(w) >= 5:
		_, data, err := f.split(w)
		return w[1], data, err == nil
	default:
		return "", nil, false
	}
}

// payload returns what follows the first line.
func (f frame) payload(w []string) []byte {
	size, err := strconv.Atoi(w[len(w)-1])
	if err != nil || size+2 > len(f) {
		return nil
	}
	return f[len(f)-2-size : len(f)-2]
}

// split returns the headers and the data of a payload with headers.
func (f frame) split(w []string) (nats.Header, []byte, error) {
	all := f.payload(w)
	size, err := strconv.Atoi(w[len(w)-2])
	if err != nil || size > len(all) {
		return nil, nil, errors.Newf("the frame %q has no headers", w)
	}
	h, err := nats.DecodeHeadersMsg(all[:size])
	return h, all[size:], err
}
