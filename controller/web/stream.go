package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// beat is the longest silence of a stream: proxies give up on longer ones.
const beat = 15 * time.Second

// stream sends events as they come, until the client is gone, does not read or is
// not admitted any more.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, q *query, principal string) {
	if !h.streams.Take(principal, 1) {
		w.Header().Set("Retry-After", "10")
		(&Problem{
			Status: http.StatusServiceUnavailable, Code: CodeStreams,
			Detail: fmt.Sprintf("%d streams of this token are open, or %d of all, which is the limit", maxStreamsEach, maxStreams),
			Hint:   "close one, or read pages of events",
		}).write(w)
		return
	}
	defer h.streams.Give(principal, 1)
	ctx, stop := context.WithCancel(r.Context())
	records := h.follow(ctx, q.after)
	defer func() {
		stop()
		for range records { // until it has ended
		}
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy would hold events back
	w.WriteHeader(http.StatusOK)
	p := newPen(w)
	defer p.end()
	if p.flush() != nil {
		return
	}
	admits := func() bool {
		now, refused := h.admit(r, reads)
		return refused == nil && now.Name == principal
	}
	_ = (&flow{pen: p, query: q, admits: admits, seen: q.after, sent: q.after}).run(ctx, records)
}

// step is the next event of a history, or its fault.
type step struct {
	record events.Record
	err    error
}

// ahead is how many events are read before they are sent.
const ahead = 16

// follow reads the history in a goroutine of its own, which waits when the client
// does not keep up. The channel is closed when it has ended.
func (h *Handler) follow(ctx context.Context, after events.Seq) <-chan step {
	steps := make(chan step, ahead)
	go func() {
		defer close(steps)
		for r, err := range h.History.Follow(ctx, after, 0) {
			select {
			case steps <- step{r, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return steps
}

// flow is a stream that is being written.
type flow struct {
	*pen
	query *query
	// admits says whether the client may still read.
	admits func() bool
	// seen is the last event that was read, sent the last id that was written.
	seen, sent events.Seq
}

// run writes until there is no more. Its error is that the client is gone.
func (f *flow) run(ctx context.Context, steps <-chan step) error {
	t := time.NewTicker(beat)
	defer t.Stop()
	ask := time.NewTicker(beat) // however much there is to write
	defer ask.Stop()
	for {
		select {
		case s, ok := <-steps:
			if !ok || s.err != nil {
				return f.fault(s.err)
			}
			wrote, err := f.take(&s.record)
			if err == nil && wrote && len(steps) == 0 { // many that are stored go together
				t.Reset(beat)
				err = f.flush()
			}
			if err != nil {
				return err
			}
		case <-t.C:
			if err := f.pulse(); err != nil {
				return err
			}
		case <-ask.C:
			if !f.admits() {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// take writes an event, if it is wanted.
func (f *flow) take(r *events.Record) (wrote bool, err error) {
	f.seen = r.Seq
	if !f.query.wants(r) {
		return false, nil
	}
	data, err := line(r)
	if err != nil {
		return false, nil //nolint:nilerr // unreachable unless a log has what no log has; the others matter
	}
	f.sent = r.Seq
	return true, f.event("id: "+strconv.FormatUint(uint64(r.Seq), 10)+"\ndata: ", data)
}

// pulse tells that the stream lives, and how far it is.
func (f *flow) pulse() error {
	head := ":"
	if f.seen > f.sent {
		f.sent = f.seen
		head = "id: " + strconv.FormatUint(uint64(f.seen), 10)
	}
	if err := f.event(head, nil); err != nil {
		return err
	}
	return f.flush()
}

// fault tells why a stream ends, if that is not the client's doing.
func (f *flow) fault(err error) error {
	if err == nil {
		return nil
	}
	words := `{"code":"` + string(CodeHistory) + `","detail":"the history cannot be read any further"}`
	if err := f.event("event: problem\ndata: ", []byte(words)); err != nil {
		return err
	}
	return f.flush()
}

func (f *flow) event(head string, data []byte) error {
	return f.write(append(append([]byte(head), data...), "\n\n"...))
}
