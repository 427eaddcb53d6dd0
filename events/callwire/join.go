package callwire

import (
	"github.com/cockroachdb/errors"
)

// MaxResult bounds a body that is put together from several frames, in bytes: a
// caller holds it in memory.
const MaxResult = 32 << 20

var (
	// ErrFrameLost says that frames are missing before the one that came, or came
	// in another order.
	ErrFrameLost = errors.New("frame lost")
	// ErrResultTooLarge says that a body exceeds [MaxResult].
	ErrResultTooLarge = errors.New("result too large")
)

// Split cuts a body into frames whose bodies have at most limit bytes; with a
// limit below 1 it is not cut. The first frame has the sequence seq, and there is
// always one. The frames share data's memory.
func Split(kind FrameKind, call string, seq int, data []byte, limit int) []Frame {
	if limit < 1 || limit > len(data) {
		limit = max(len(data), 1)
	}
	frames := make([]Frame, 0, len(data)/limit+1)
	for more := true; more; seq++ {
		n := min(limit, len(data))
		more = n < len(data)
		frames = append(frames, Frame{Kind: kind, Call: call, Seq: seq, More: more, Data: data[:n:n]})
		data = data[n:]
	}
	return frames
}

// Joiner puts the frames of one call together. The zero Joiner expects the first
// frame of a call. It is for one goroutine.
type Joiner struct {
	call string
	next int // sequence of the next frame
	open bool
	kind FrameKind
	body []byte
	over bool  // the last frame has come
	err  error // the first one
}

// Add takes the next frame. It returns the frame, with the whole body, or nil if
// the body goes on.
//
// A frame that does not follow the one before it is refused with an error marked
// [ErrFrameLost], a body above [MaxResult] with one marked [ErrResultTooLarge].
// After an error, and after a frame that ends the call, every frame is refused.
func (j *Joiner) Add(f *Frame) (complete *Frame, err error) {
	if j.err == nil {
		j.err = j.check(f)
	}
	if j.err != nil {
		j.body = nil
		return nil, j.err
	}
	j.call, j.kind, j.next = f.Call, f.Kind, f.Seq+1
	whole := *f
	if f.More || j.open {
		j.body = append(j.body, f.Data...)
		j.open = f.More
		if f.More {
			return nil, nil
		}
		whole.Data, j.body = j.body, nil
	}
	j.over = f.Kind.Last()
	return &whole, nil
}

func (j *Joiner) check(f *Frame) error {
	switch {
	case j.over:
		return errors.Mark(errors.Newf("call %s is over", j.call), ErrFrameLost)
	case f.Seq != j.next:
		return errors.Mark(errors.Newf("frame %d came instead of %d", f.Seq, j.next), ErrFrameLost)
	case j.next > 0 && f.Call != j.call:
		return errors.Mark(errors.Newf("frame %d is of another call", f.Seq), ErrFrameLost)
	case j.open && f.Kind != j.kind:
		return errors.Mark(errors.Newf("frame %d is a %q inside of a %q", f.Seq, f.Kind, j.kind), ErrFrameLost)
	case f.More && len(f.Data) == 0:
		// Otherwise a body could go on for ever without growing.
		return errors.Mark(errors.Newf("frame %d is a part without a body", f.Seq), ErrFrameLost)
	case len(j.body)+len(f.Data) > MaxResult:
		return errors.Mark(errors.Newf("the body of a %q has more than %d bytes", f.Kind, MaxResult), ErrResultTooLarge)
	}
	return nil
}
