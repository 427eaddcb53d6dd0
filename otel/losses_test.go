package otel

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
)

func TestLossesAreReportedAtARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		h := newErrorHandler(slog.New(slog.NewJSONHandler(&out, nil)))
		for range 100 {
			h.Handle(errors.New("connection refused"))
			time.Sleep(time.Second)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 10 {
			t.Fatalf("%d lines for 100 errors in 100 s, want 10:\n%s", len(lines), out.String())
		}
		if strings.Contains(lines[0], "more") || !strings.Contains(lines[0], `"err":"connection refused"`) {
			t.Errorf("first line: %s", lines[0])
		}
		if want := `"err":"9 more since the last report: connection refused"`; !strings.Contains(lines[9], want) {
			t.Errorf("last line: %s, want %s", lines[9], want)
		}
	})
}

func TestLossesWithoutALogger(*testing.T) {
	newErrorHandler(nil).Handle(errors.New("connection refused"))
}
