package parts

import (
	"io"
	"log/slog"

	"github.com/toolfleet/toolfleet/otel"
)

// NewLogger returns a logger for people, and for what takes log records if the
// environment asks for that. Errors are written in words, without where they come
// from.
func NewLogger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(otel.LogHandler(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(err.Error())
		}
		return a
	}})))
}
