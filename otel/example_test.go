package otel_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel/attribute"

	"github.com/toolfleet/toolfleet/otel"
)

func ExampleStart() {
	ctx := context.Background()
	telemetry, err := otel.Start(ctx, &otel.Options{
		Service: "toolfleet-worker",
		Logger:  slog.New(slog.NewJSONHandler(os.Stderr, nil)),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() {
		if err := telemetry.Shutdown(ctx); err != nil {
			fmt.Println(err)
		}
	}()

	_, span := otel.Tracer("worker").Start(ctx, "connect")
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(attribute.String("toolfleet.server.name", "github"))
	}
}
