package otel_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/otel"
	"github.com/toolfleet/toolfleet/otel/oteltest"
)

// What is logged in a span tells which, on standard error and to the collector.
func TestLogs(t *testing.T) {
	s := oteltest.NewSink(t)
	oteltest.Setenv(t, "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT="+s.URL+"/v1/logs")
	tel := start(t, nil)
	var out bytes.Buffer
	log := slog.New(otel.LogHandler(slog.NewTextHandler(&out, nil))).With("server", "github")
	ctx := otel.Extract(t.Context(), arrived, "")
	log.WarnContext(ctx, "not written yet", "err", errors.Wrap(errors.New("inner"), "outer"))
	log.Debug("unseen")
	otel.Emit(ctx, "worker", "toolfleet.server.failed", otel.Warn, "instance.github.0: failed", otel.ServerName.String("github"))
	shutdown(t, tel)

	if got := out.String(); !strings.Contains(got, "trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=00f067aa0ba902b7") {
		t.Errorf("standard error: %s", got)
	}
	all := s.Records()
	if len(all) != 2 {
		t.Fatalf("records %+v", all)
	}
	for _, r := range all {
		if r.Trace != "4bf92f3577b34da6a3ce929d0e0e4736" || r.Span != "00f067aa0ba902b7" {
			t.Errorf("%+v is in no span", r)
		}
	}
	if r := all[0]; r.Body != "not written yet" || r.Attributes["err"] != "outer: inner" || r.Attributes["server"] != "github" {
		t.Errorf("the log is %+v", r)
	}
	if r := all[1]; r.Event != "toolfleet.server.failed" || r.Severity != "WARN" || r.Attributes["toolfleet.server.name"] != "github" {
		t.Errorf("the event is %+v", r)
	}
}

// Without an exporter for logs nothing but the ids is added.
func TestLogsOff(t *testing.T) {
	oteltest.Setenv(t)
	start(t, nil)
	var out bytes.Buffer
	slog.New(otel.LogHandler(slog.NewTextHandler(&out, nil))).Info("up")
	if got := out.String(); otel.Logging() || !strings.HasSuffix(got, "msg=up\n") {
		t.Errorf("got %q", got)
	}
}
