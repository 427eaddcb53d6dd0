package show

import (
	"io"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events/callwire"
)

// LogLine writes a line of a server's log: as one line of JSON, or for people as
// time, stream and text.
func LogLine(w io.Writer, f *Format, l *callwire.LogLine) error {
	if f.Is(JSON) {
		return writeJSON(w, l)
	}
	line := l.Time.Local().Format("2006-01-02 15:04:05.000") + "  " + pad(string(l.Stream), 6) + "  " + Clean(l.Text)
	_, err := io.WriteString(w, strings.TrimRight(line, " ")+"\n")
	return errors.Wrap(err, "write the output")
}
