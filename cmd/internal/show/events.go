package show

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
)

// event is the JSON shape of an event.
type event struct {
	Seq   events.Seq  `json:"seq"`
	Time  time.Time   `json:"time"`
	Kind  events.Kind `json:"kind"`
	Chain string      `json:"chain"`
	// Worker that wrote it, or whose chain it is; empty for a controller's.
	Worker      events.WorkerID  `json:"worker"`
	Epoch       events.Epoch     `json:"epoch"`
	Attempt     int              `json:"attempt"`
	Actor       string           `json:"actor"`
	Reason      string           `json:"reason"`
	Cause       string           `json:"cause"`
	Correlation events.RequestID `json:"correlation"`
	ID          events.EventID   `json:"id"`
	Source      string           `json:"source"`
	Traceparent string           `json:"traceparent"`
	// Link is the event's hash, Prev that of the one before it in its chain.
	Prev events.Link    `json:"prev"`
	Link events.Link    `json:"link"`
	Body jsontext.Value `json:"body"`
}

// undecodable is the kind shown for a message that is no event.
const undecodable events.Kind = "undecodable"

func eventOf(r *events.Record) (event, error) {
	e := event{
		Seq: r.Seq, Time: r.Time, Kind: r.Kind(), Chain: r.Chain.String(), Worker: workerOf(r),
		Epoch: r.Epoch, Attempt: r.Attempt, Actor: r.Actor, Reason: r.Reason, Cause: r.Cause,
		Correlation: r.Correlation, ID: r.ID, Source: r.Source, Traceparent: r.Trace.Parent,
		Prev: r.Prev, Link: r.Link, Body: r.Data,
	}
	var err error
	switch b := r.Body.(type) {
	case events.Undecodable:
		e.Kind = undecodable
		e.Body, err = json.Marshal(map[string]string{"reason": b.Reason})
	default:
		if e.Body == nil { // not read from a log
			e.Body, err = json.Marshal(b, json.Deterministic(true))
		}
	}
	return e, errors.Wrapf(err, "show event %d", r.Seq)
}

func workerOf(r *events.Record) events.WorkerID {
	if w := r.Chain.Worker(); w != "" {
		return w
	}
	_, writer, _ := strings.Cut(r.Source, "/worker/")
	return events.WorkerID(writer)
}

// Event writes an event: as one line of JSON, one document of YAML, or one line
// for people.
func Event(w io.Writer, f *Format, r *events.Record) error {
	if !f.Data() {
		return eventLine(w, r)
	}
	e, err := eventOf(r)
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
		kind = undecodable
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
