package events

import (
	"strconv"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
)

// Replicas is a number of instances, or [EachWorker]. Zero means one.
type Replicas int

// EachWorker asks for one instance on every eligible worker. Its JSON form is
// "each".
const EachWorker Replicas = -1

// Count returns the number of instances, or false for [EachWorker].
func (r Replicas) Count() (int, bool) {
	switch {
	case r == EachWorker:
		return 0, false
	case r == 0:
		return 1, true
	default:
		return int(r), true
	}
}

// MarshalJSONTo writes a number, or "each".
func (r Replicas) MarshalJSONTo(enc *jsontext.Encoder) error {
	if r == EachWorker {
		return enc.WriteToken(jsontext.String("each"))
	}
	return enc.WriteToken(jsontext.Int(int64(r)))
}

// UnmarshalJSONFrom reads a positive number, or "each".
func (r *Replicas) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if string(v) == `"each"` {
		*r = EachWorker
		return nil
	}
	n, err := strconv.Atoi(string(v))
	if err != nil || n < 1 {
		return errors.Newf(`replicas %s: use a number from 1, or "each"`, v)
	}
	*r = Replicas(n)
	return nil
}
