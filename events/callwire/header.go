package callwire

import (
	"strconv"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

const (
	headerCall    = "tf-call"
	headerMethod  = "tf-method"
	headerTool    = "tf-tool"
	headerTimeout = "tf-timeout"
	headerActor   = "tf-actor"
	headerFrame   = "tf-frame"
	headerSeq     = "tf-seq"
	headerMore    = "tf-more"

	headerTraceParent = "traceparent"
	headerTraceState  = "tracestate"
)

// header is that of one message of a call.
type header map[string][]string

// set writes text, unless it is empty.
func (h header) set(name, text string) {
	if text != "" {
		h[name] = []string{events.EscapeHeader(text)}
	}
}

// get returns the raw value of a header, or "".
func (h header) get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// text returns what set wrote; longest is in bytes.
func (h header) text(name string, longest int) (string, error) {
	text, err := events.UnescapeHeader(h.get(name))
	switch {
	case err != nil:
		return "", errors.Wrap(err, name)
	case len(text) > longest:
		return "", errors.Newf("%s has %d bytes, at most %d are allowed", name, len(text), longest)
	}
	return text, nil
}

// need is text that must be there.
func (h header) need(name string, longest int) (string, error) {
	text, err := h.text(name, longest)
	if err == nil && text == "" {
		return "", errors.Newf("%s is missing", name)
	}
	return text, err
}

// number returns a decimal number from 0 to most.
func (h header) number(name string, most uint64) (uint64, error) {
	s := h.get(name)
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > most || s != strconv.FormatUint(n, 10) {
		return 0, errors.Newf("%s is no number from 0 to %d", name, most)
	}
	return n, nil
}
