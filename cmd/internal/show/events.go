package show

import (
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections/shape"
)

// Event writes an event: as one line of JSON, one document of YAML, or one line
// for people.
func Event(w io.Writer, f *Format, r *events.Record) error {
	if !f.Data() {
		return eventLine(w, r)
	}
	e, err := shape.NewEvent(r)
	if err != nil {
		return err
	}
	if f.Is(JSON) {
		return writeJSON(w, &e)
	}
	if _, err := io.WriteString(w, "---\n"); err != nil {
		return errors.Wrap(err, "write the output")
	}
	return writeYAML(w, &e)
}

// eventLine writes an event for people: time, sequence, chain, kind, and the few
// facts that matter.
func eventLine(w io.Writer, r *events.Record) error {
	kind := r.Kind()
	if _, broken := r.Body.(events.Undecodable); broken {
		kind = shape.Undecodable
	}
	line := strings.Join([]string{
		r.Time.Local().Format("2006-01-02 15:04:05.000"), pad(strconv.FormatUint(uint64(r.Seq), 10), 6),
		pad(r.Chain.String(), 28), pad(string(kind), 18), facts(r),
	}, "  ")
	_, err := io.WriteString(w, strings.TrimRight(cut(Clean(line), widest), " ")+"\n")
	return errors.Wrap(err, "write the output")
}

// widest is how many characters of an event are shown to people.
const widest = 400

func pad(s string, width int) string {
	if n := width - len(s); n > 0 {
		return s + strings.Repeat(" ", n)
	}
	return s
}
