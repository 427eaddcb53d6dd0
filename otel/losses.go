package otel

import (
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
)

// reportEvery is the least time between two reports of lost telemetry: with the
// collector down, every batch of every signal fails.
const reportEvery = 10 * time.Second

// errorHandler is the SDK's error handler: it logs the first error, and later
// ones with a count of those it kept to itself.
type errorHandler struct {
	logger *slog.Logger

	mu     sync.Mutex
	last   time.Time // guarded by mu
	silent int       // guarded by mu
}

func newErrorHandler(l *slog.Logger) *errorHandler {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return &errorHandler{logger: l}
}

// Handle takes an error of the SDK or an exporter.
func (h *errorHandler) Handle(err error) {
	silent, report := h.count(time.Now())
	if !report {
		return
	}
	if silent > 0 {
		err = errors.WithMessagef(err, "%d more since the last report", silent)
	}
	h.logger.Warn("telemetry is being lost", "err", err)
}

// count returns how many errors were not reported since the last that was, and
// whether this one is to be.
func (h *errorHandler) count(now time.Time) (silent int, report bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.last.IsZero() && now.Sub(h.last) < reportEvery {
		h.silent++
		return 0, false
	}
	silent, h.silent, h.last = h.silent, 0, now
	return silent, true
}
