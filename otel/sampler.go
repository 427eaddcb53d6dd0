package otel

import (
	"os"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// callMethods are the requests of agents: the one thing of a fleet that there is
// so much of that a share of it is enough.
var callMethods = []string{"tools/call", "resources/read", "prompts/get", "completion/complete"}

// lifecycleFirst samples every trace that begins with a part of a server's life,
// and a share of those that begin with a call.
type lifecycleFirst struct {
	calls sdktrace.Sampler
}

// newSampler returns the sampler for where OTEL_TRACES_SAMPLER names none. The
// parent's decision counts; OTEL_TRACES_SAMPLER_ARG is the share of calls, all
// by default.
func newSampler() (sdktrace.Sampler, error) {
	share := 1.0
	if text := strings.TrimSpace(os.Getenv("OTEL_TRACES_SAMPLER_ARG")); text != "" {
		var err error
		if share, err = strconv.ParseFloat(text, 64); err != nil || share < 0 || share > 1 {
			return nil, errors.Newf("OTEL_TRACES_SAMPLER_ARG is %q, not a share between 0 and 1", text)
		}
	}
	return sdktrace.ParentBased(lifecycleFirst{sdktrace.TraceIDRatioBased(share)}), nil
}

// ShouldSample decides on a span without a parent, by its name.
func (s lifecycleFirst) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	for _, m := range callMethods {
		if strings.HasPrefix(p.Name, m) {
			return s.calls.ShouldSample(p)
		}
	}
	return sdktrace.AlwaysSample().ShouldSample(p)
}

// Description names the sampler.
func (s lifecycleFirst) Description() string {
	return "LifecycleFirst{calls:" + s.calls.Description() + "}"
}
