package events

import (
	"fmt"
	"strconv"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
)

// Replicas is a number of instances up to [MaxReplicas], or [EachWorker]. Zero
// means one.
type Replicas int

// MaxReplicas bounds the instances that one definition asks for: each has a
// chain, views and a process.
const MaxReplicas = 1000

// EachWorker asks for one instance on every eligible worker. Its JSON form is
// "each".
const EachWorker Replicas = -1

var replicasForm = fmt.Sprintf(`a number from 1 to %d, or "each"`, MaxReplicas)

// Count returns the number of instances, or false for [EachWorker].
func (r Replicas) Count() (int, bool) {
	switch r {
	case EachWorker:
		return 0, false
	case 0:
		return 1, true
	default:
		return int(r), true
	}
}

// MarshalJSONTo writes a number, 1 for zero, or "each". Any other value than
// those that [Replicas.UnmarshalJSONFrom] reads is an error.
func (r Replicas) MarshalJSONTo(enc *jsontext.Encoder) error {
	switch r {
	case EachWorker:
		return enc.WriteToken(jsontext.String("each"))
	case 0:
		return enc.WriteToken(jsontext.Int(1))
	default:
		if r < 0 || r > MaxReplicas {
			return errors.Newf("replicas %d are out of range", int(r))
		}
		return enc.WriteToken(jsontext.Int(int64(r)))
	}
}

// UnmarshalJSONFrom reads a whole number from 1 to [MaxReplicas], or "each".
// Everything else is an error.
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
	if err != nil || n < 1 || n > MaxReplicas {
		return errors.New("replicas must be " + replicasForm)
	}
	*r = Replicas(n)
	return nil
}
