package otel

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/cockroachdb/errors"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

const modulePath = "github.com/toolfleet/toolfleet"

// newResource describes the process. It does not use resource.WithProcess, which
// would export the command line with whatever secret stands in it.
func newResource(ctx context.Context, o *Options) (*resource.Resource, error) {
	service, version, instance := o.Service, o.Version, o.Instance
	if service == "" {
		service = "toolfleet"
	}
	if version == "" {
		version = moduleVersion()
	}
	if instance == "" {
		instance = uuid.NewString()
	}
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithProcessPID(),
		resource.WithAttributes(
			semconv.ServiceName(service),
			semconv.ServiceVersion(version),
			semconv.ServiceInstanceID(instance),
		),
		resource.WithFromEnv(), // last, so that it wins
	)
	return res, errors.Wrap(err, "describe the process as OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say")
}

// moduleVersion returns toolfleet's version, or "devel" in a build that has none.
var moduleVersion = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == modulePath && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return "devel"
})
