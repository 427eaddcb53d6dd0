package worker

import (
	"context"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

// maxLogFrame bounds the lines that are sent in one frame, in bytes.
const maxLogFrame = 64 << 10

// serveLogs answers requests for logs until the context ends.
func (h *host) serveLogs(ctx context.Context) {
	subject := events.LogsSubject(h.options.Fleet, h.options.ID)
	h.serve(ctx, subject, func(call context.Context, r *callwire.Request, send func(callwire.FrameKind, []byte)) ([]byte, error) {
		var q callwire.LogsRequest
		if err := json.Unmarshal(r.Arguments, &q); err != nil || r.Tool != callwire.LogsTool {
			return nil, notUnderstood("this is no request for logs")
		}
		end, err := h.logs.answer(call, ctx.Done(), &q, send)
		if err != nil {
			return nil, err
		}
		return json.Marshal(callwire.LogsResult{End: end})
	})
}

// serve answers calls to a subject until the context ends, whatever happens
// meanwhile.
func (h *host) serve(ctx context.Context, subject string, answer CallHandler) {
	for {
		err := h.parts.Calls.ServeCalls(ctx, subject, answer)
		if ctx.Err() != nil {
			return
		}
		h.options.Logger.Warn("calls not served", "subject", subject, "err", err)
		if pause(ctx, retryPause) != nil {
			return
		}
	}
}

// answer sends lines until there are no more, or until stop.
func (s *shelf) answer(ctx context.Context, stop <-chan struct{}, q *callwire.LogsRequest, send func(callwire.FrameKind, []byte)) (callwire.LogsEnd, error) {
	if s == nil {
		return callwire.LogsOff, nil
	}
	b := s.find(place{q.Server, q.Instance})
	if b == nil {
		return callwire.LogsNone, nil
	}
	lines, found, f := b.read(q)
	if f != nil {
		defer b.forget(f)
	}
	sendLines(lines, send)
	switch {
	case f != nil:
		return b.follow(ctx, stop, f, send)
	case !found:
		return callwire.LogsNone, nil
	default:
		return callwire.LogsComplete, nil
	}
}

// follow sends lines as they come.
func (b *book) follow(ctx context.Context, stop <-chan struct{}, f *follower, send func(callwire.FrameKind, []byte)) (callwire.LogsEnd, error) {
	for {
		select {
		case l := <-f.lines:
			lines := []callwire.LogLine{l}
			for len(f.lines) > 0 {
				lines = append(lines, <-f.lines)
			}
			if n := b.takeMissed(f); n > 0 {
				last := lines[len(lines)-1]
				last.Stream, last.Text = callwire.OfWorker, strconv.Itoa(n)+" lines were left out: they came too fast"
				lines = append(lines, last)
			}
			sendLines(lines, send)
		case <-stop:
			return callwire.LogsStopped, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// sendLines sends lines, many in a frame.
func sendLines(lines []callwire.LogLine, send func(callwire.FrameKind, []byte)) {
	var data []byte
	for i := range lines {
		data = callwire.AppendLogLine(data, &lines[i])
		if len(data) >= maxLogFrame || i == len(lines)-1 {
			send(callwire.Log, data)
			data = nil
		}
	}
}

// record returns the recorder of an attempt, or nil.
func (h *host) record(a events.Address, ref Ref) *recorder {
	if h.logs == nil {
		return nil
	}
	log := h.options.Logger.With("server", string(a.Server), "instance", string(a.Instance), "epoch", uint64(ref.Epoch))
	return newRecorder(h.logs.open(place{a.Server, a.Instance}), ref, log)
}

// recordLimit bounds the writing of an attempt's last lines: a disk may hang.
const recordLimit = time.Second
