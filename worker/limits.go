package worker

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// The variables of the worker's environment that override every definition's
// own limits: a duration such as "90s", or milliseconds; 0 is no limit.
const (
	connectTimeoutVariable = "TOOLFLEET_CONNECT_TIMEOUT"
	callTimeoutVariable    = "TOOLFLEET_CALL_TIMEOUT"
)

var errNoSecrets = errors.New("this worker reads no secrets")

// connectLimit is for the handshake and the first list of tools; 0 is none.
func (h *host) connectLimit(d *events.Definition) time.Duration {
	return h.limit(connectTimeoutVariable, d.ConnectTimeout())
}

// callLimit is for one call; 0 is none.
func (h *host) callLimit(d *events.Definition) time.Duration {
	return h.limit(callTimeoutVariable, d.CallTimeout())
}

func (h *host) limit(variable string, otherwise time.Duration) time.Duration {
	text, set := h.options.Env(variable)
	if !set || text == "" {
		return otherwise
	}
	if ms, err := strconv.ParseUint(text, 10, 40); err == nil {
		return time.Duration(ms) * time.Millisecond
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d
	}
	return otherwise
}

// withLimit bounds a context in time, unless the limit is 0.
func withLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// offers says whether a definition lets a tool be seen and called, by the name
// that its server gave it.
func offers(d *events.Definition, tool string) bool {
	if len(d.EnabledTools) > 0 && !slices.Contains(d.EnabledTools, tool) {
		return false
	}
	return !slices.Contains(d.DisabledTools, tool)
}
