package parts

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"
)

// A log is for people: it has no stack traces.
func TestLogger(t *testing.T) {
	var b strings.Builder
	log := NewLogger(&b, slog.LevelWarn)
	log.Info("unseen")
	log.Warn("seen", "err", errors.Wrap(errors.New("inner"), "outer"))
	if got := b.String(); !strings.HasSuffix(got, "level=WARN msg=seen err=\"outer: inner\"\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
}
