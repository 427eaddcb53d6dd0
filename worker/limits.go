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

// override is a time limit of the environment's, if it has one.
type override struct {
	limit time.Duration
	set   bool
}

// readOverride reads a variable. What is no duration is as good as nothing.
func readOverride(env func(string) (string, bool), variable string) override {
	text, _ := env(variable)
	if ms, err := strconv.ParseUint(text, 10, 40); err == nil {
		return override{time.Duration(ms) * time.Millisecond, true}
	}
	d, err := time.ParseDuration(text)
	return override{d, err == nil && d >= 0}
}

// or returns the override, or another limit where there is none.
func (o override) or(otherwise time.Duration) time.Duration {
	if o.set {
		return o.limit
	}
	return otherwise
}

// connectLimit is for the handshake and the first list of tools; 0 is none.
func (h *host) connectLimit(d *events.Definition) time.Duration {
	return h.connectOverride.or(d.ConnectTimeout())
}

// callLimit is for one call; 0 is none.
func (h *host) callLimit(d *events.Definition) time.Duration {
	return h.callOverride.or(d.CallTimeout())
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
