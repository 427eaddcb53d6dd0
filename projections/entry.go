package projections

import (
	"cmp"
	"slices"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
)

// Order is an entry's place among all entries that its key ever had.
type Order struct {
	Log  events.LogID
	Fold int
	Seq  events.Seq
}

// Compare returns -1, 0 or 1: orders are lexicographic in (log, fold, seq).
func (o Order) Compare(p Order) int {
	return cmp.Or(cmp.Compare(o.Log, p.Log), cmp.Compare(o.Fold, p.Fold), cmp.Compare(o.Seq, p.Seq))
}

// Entry is a value as it is stored under a key: a state, or something else that
// is folded from one chain.
type Entry[S any] struct {
	// Log is the history that was folded, Fold the version of the fold.
	Log  events.LogID
	Fold int
	// Seq and Link are those of the last event that was folded.
	Seq  events.Seq
	Link events.Link
	// Digest is that of the value's JSON, byte by byte as it is stored; set by
	// Encode.
	Digest events.Digest
	Value  S
}

// Order returns the entry's order.
func (e *Entry[S]) Order() Order { return Order{e.Log, e.Fold, e.Seq} }

// Compare compares the orders of two entries of one key: -1, 0 or 1.
func (e *Entry[S]) Compare(f *Entry[S]) int { return e.Order().Compare(f.Order()) }

// ErrInvalidEntry marks the errors of the decoders of entries.
var ErrInvalidEntry = errors.New("invalid entry")

// RawEntry is an entry whose value is not decoded.
type RawEntry = Entry[jsontext.Value]

// envelope is the JSON form of an entry.
type envelope struct {
	Log    events.LogID   `json:"log"`
	Fold   int            `json:"fold"`
	Seq    events.Seq     `json:"seq"`
	Link   events.Link    `json:"link,omitzero"`
	Digest events.Digest  `json:"digest"`
	Value  jsontext.Value `json:"value,omitzero"`
}

// Encode sets the entry's digest and returns its JSON form. Equal values have
// equal forms. Its error, of a value that JSON cannot hold, has no mark.
func (e *Entry[S]) Encode() ([]byte, error) {
	value, err := json.Marshal(&e.Value, json.Deterministic(true))
	if err != nil {
		return nil, errors.Wrap(err, "encode entry")
	}
	e.Digest = events.DigestOf(value)
	data, err := json.Marshal(&envelope{Log: e.Log, Fold: e.Fold, Seq: e.Seq, Link: e.Link, Digest: e.Digest})
	if err != nil {
		return nil, errors.Wrap(err, "encode entry")
	}
	// The value is added as it is: to format it again would take as long as to
	// make it.
	data = slices.Grow(data[:len(data)-1], len(value)+16)
	data = append(append(data, `,"value":`...), value...)
	return append(data, '}'), nil
}

// DecodeRaw reads an entry without its value, and checks its digest. Its error
// is marked [ErrInvalidEntry].
func DecodeRaw(data []byte) (*RawEntry, error) {
	var v envelope
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, errors.Mark(errors.Wrap(err, "decode entry"), ErrInvalidEntry)
	}
	if digest := events.DigestOf(v.Value); digest != v.Digest {
		return nil, errors.Mark(errors.Newf("decode entry: the value's digest is %s, not %s", digest, v.Digest), ErrInvalidEntry)
	}
	return &RawEntry{v.Log, v.Fold, v.Seq, v.Link, v.Digest, v.Value}, nil
}

// DecodeEntry reads an entry; its error is marked [ErrInvalidEntry]. A value of
// an older or newer fold may have another form: see [DecodeRaw].
func DecodeEntry[S any](data []byte) (*Entry[S], error) {
	raw, err := DecodeRaw(data)
	if err != nil {
		return nil, err
	}
	return DecodeValue[S](raw)
}

// DecodeValue decodes the value of an entry. Its error is marked
// [ErrInvalidEntry].
func DecodeValue[S any](raw *RawEntry) (*Entry[S], error) {
	e := &Entry[S]{Log: raw.Log, Fold: raw.Fold, Seq: raw.Seq, Link: raw.Link, Digest: raw.Digest}
	if err := json.Unmarshal(raw.Value, &e.Value); err != nil {
		return nil, errors.Mark(errors.Wrapf(err, "decode the value of an entry of fold %d", raw.Fold), ErrInvalidEntry)
	}
	return e, nil
}
