package events

import (
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
)

// field numbers the headers of the format in the order of their names, which is
// the order in which the link covers them.
type field int

const (
	fieldID field = iota
	fieldSource
	fieldSpec
	fieldSubject
	fieldTime
	fieldType
	fieldContentType
	fieldActor
	fieldAttempt
	fieldCause
	fieldCorrelation
	fieldEpoch
	fieldPrev
	fieldReason
	fieldTraceParent
	fieldTraceState

	fields      // how many there are
	fieldExtra  // of the format, but not known to this build
	fieldBroker // not of the format
)

// fieldNames are compared case-sensitively, as NATS does.
var fieldNames = [fields]string{
	fieldID:          "ce-id",
	fieldSource:      "ce-source",
	fieldSpec:        "ce-specversion",
	fieldSubject:     "ce-subject",
	fieldTime:        "ce-time",
	fieldType:        "ce-type",
	fieldContentType: "content-type",
	fieldActor:       "tf-actor",
	fieldAttempt:     "tf-attempt",
	fieldCause:       "tf-cause",
	fieldCorrelation: "tf-correlation",
	fieldEpoch:       "tf-epoch",
	fieldPrev:        "tf-prev",
	fieldReason:      "tf-reason",
	fieldTraceParent: "traceparent",
	fieldTraceState:  "tracestate",
}

func (f field) String() string { return fieldNames[f] }

func fieldOf(name string) field {
	for f := range fieldNames { // faster than a map or a binary search
		if name == fieldNames[f] {
			return field(f)
		}
	}
	if strings.HasPrefix(name, "ce-") || strings.HasPrefix(name, "tf-") {
		return fieldExtra
	}
	return fieldBroker
}

// header is what a message has of the format.
type header struct {
	// value is "" where a header is absent.
	value [fields]string
	// extra holds what has no place in value: headers that this build does not
	// know, that are given more than once, or that are empty.
	extra []extra
}

type extra struct{ name, value string }

func readHeader(m map[string][]string) (h header) {
	for name, values := range m {
		f := fieldOf(name)
		switch {
		case f == fieldBroker:
		case f < fields && len(values) == 1 && values[0] != "":
			h.value[f] = values[0]
		default:
			for _, v := range values {
				h.extra = append(h.extra, extra{name, v})
			}
		}
	}
	return h
}

// MaxHeaderSize bounds the values of an event's headers together, in bytes: with
// a body of [MaxSize] they stay below what the stream takes. Reasons and actors
// are free text.
const MaxHeaderSize = 8 << 10

// message returns the headers as a message has them.
func (h *header) message() map[string][]string {
	values := h.value                                           // one allocation for all
	m := make(map[string][]string, len(h.value)+len(h.extra)+2) // room for the broker's
	for f, v := range values {
		if v != "" {
			m[fieldNames[f]] = values[f : f+1 : f+1]
		}
	}
	for _, x := range h.extra {
		m[x.name] = append(m[x.name], x.value)
	}
	return m
}

// check returns an error unless the headers are such as Encode writes.
func (h *header) check() error {
	size := 0
	for f, v := range h.value {
		if !isPlain(v) {
			return errors.Newf("%s holds what a header cannot", field(f))
		}
		size += len(v)
	}
	for i, x := range h.extra {
		switch {
		case !isExtraName(x.name) || i > 0 && h.extra[i-1].name == x.name:
			return errors.Newf("header %s is no header of an event, or is empty or given more than once", quote(x.name))
		case x.value == "" || !isPlain(x.value):
			return errors.Newf("header %s is empty or holds what a header cannot", quote(x.name))
		}
		size += len(x.name) + len(x.value)
	}
	if size > MaxHeaderSize {
		return errors.Mark(errors.Newf("headers of %d bytes, at most %d are allowed", size, MaxHeaderSize), ErrTooLarge)
	}
	return nil
}

// isExtraName says whether a later build may have given a header that name.
func isExtraName(name string) bool {
	return fieldOf(name) == fieldExtra && len(name) > len("tf-") && isToken(name) && name == strings.ToLower(name)
}

// appendTo appends a line for each header, in the order of their names.
func (h *header) appendTo(buf []byte) []byte {
	line := func(name, value string) {
		buf = append(append(append(append(buf, name...), ':'), value...), '\n')
	}
	if len(h.extra) == 0 {
		for f, v := range h.value {
			if v != "" {
				line(fieldNames[f], v)
			}
		}
		return buf
	}
	lines := slices.Clone(h.extra)
	for f, v := range h.value {
		if v != "" {
			lines = append(lines, extra{fieldNames[f], v})
		}
	}
	slices.SortStableFunc(lines, func(a, b extra) int { return strings.Compare(a.name, b.name) })
	for _, x := range lines {
		line(x.name, x.value)
	}
	return buf
}

// isPlain says whether a header carries the text as it is: printable ASCII
// without white space around it, which NATS would trim.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return s == "" || s[0] != ' ' && s[len(s)-1] != ' '
}

const hexDigits = "0123456789ABCDEF"

// EscapeHeader returns text as a header can carry it: '%', bytes that are not
// printable ASCII and spaces at either end are percent-encoded.
func EscapeHeader(text string) string {
	if isPlain(text) && !strings.Contains(text, "%") {
		return text
	}
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c > '~' || c == '%' || c == ' ' && (i == 0 || i == len(text)-1) {
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// UnescapeHeader is the inverse of [EscapeHeader]. What EscapeHeader does not
// write, such as lower-case digits or an escaped letter, is an error.
func UnescapeHeader(value string) (string, error) {
	if isPlain(value) && !strings.Contains(value, "%") {
		return value, nil
	}
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c == '%' && i+2 < len(value) {
			high, low := strings.IndexByte(hexDigits, value[i+1]), strings.IndexByte(hexDigits, value[i+2])
			c = byte(high<<4 | low) // -1 does not survive the comparison below
			i += 2
		}
		b.WriteByte(c)
	}
	text := b.String()
	if EscapeHeader(text) != value {
		return "", errors.Newf("header value %s is not percent-encoded as it should be", quote(value))
	}
	return text, nil
}
