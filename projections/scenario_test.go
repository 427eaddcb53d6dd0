package projections

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
)

var update = flag.Bool("update", false, "write the states that the scenarios in testdata now give")

// TestScenarios runs the stories in testdata/evolve. A line
//
//   - <chain> <kind> [<body>] [epoch=N] [attempt=N] [request=ID] [actor=NAME]
//
// is an event; the line after it, which begins with "=", is the state of that
// chain as it then is. Each event is a second after the one before it, and goes
// through the codec. Without epoch=, an event on an instance's chain has that
// of the last assigned.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/evolve/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, want)
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
		})
	}
}

// play returns the scenario with the states that its events give.
func play(t *testing.T, scenario []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var h History
	epochs := make(map[events.Chain]events.Epoch)
	lines := bufio.NewScanner(bytes.NewReader(scenario))
	for lines.Scan() {
		line := lines.Text()
		story, isEvent := strings.CutPrefix(line, "+ ")
		switch {
		case isEvent:
			r := scene(t, story, h.Seq()+1, epochs)
			h.Apply(r)
			fmt.Fprintln(&out, line)
			fmt.Fprintln(&out, "=", describe(&h, r.Chain))
		case !strings.HasPrefix(line, "="):
			fmt.Fprintln(&out, line)
		}
	}
	return out.Bytes()
}

var dawn = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// scene returns the record that a line tells of.
func scene(t *testing.T, line string, seq events.Seq, epochs map[events.Chain]events.Epoch) events.Record {
	t.Helper()
	words := strings.Fields(line)
	chain, err := events.ParseChain(words[0])
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	e := events.Event{
		Chain: chain, ID: events.EventID(fmt.Sprintf("e%d", seq)), Source: "test",
		Time: dawn.Add(time.Duration(seq) * time.Second), Epoch: epochs[chain],
	}
	typ, data := events.Kind(words[1]).Type(), "{}"
	for _, w := range words[2:] {
		if strings.HasPrefix(w, "{") {
			data = w
			continue
		}
		name, value, _ := strings.Cut(w, "=")
		n, _ := strconv.Atoi(value)
		switch name {
		case "epoch":
			e.Epoch = events.Epoch(n)
		case "attempt":
			e.Attempt = n
		case "request":
			e.Correlation = events.RequestID(value)
		case "actor":
			e.Actor = value
		default:
			t.Fatalf("%s: what is %s?", line, w)
		}
	}
	// What the line says is stored as it is, even what no writer would write.
	e.Body, e.Data = events.Unknown{Type: events.Kind("placeholder").Type()}, []byte("{}")
	m, err := events.Encode("f", &e)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	m.Header["ce-type"], m.Data = []string{typ}, []byte(data)
	r := events.Read(m, seq)
	if a, ok := r.Body.(events.Assigned); ok {
		epochs[chain] = max(epochs[chain], a.Epoch)
	}
	return r
}

// describe returns what is worth telling of a chain's state, in one line.
func describe(h *History, c events.Chain) string {
	var d description
	switch c.Kind() {
	case events.OfServer:
		d.server(h.Server(c.Server()))
	case events.OfInstance:
		d.instance(h.Instance(c.Server(), c.Instance()))
	case events.OfWorker:
		d.worker(h.Worker(c.Worker()))
	case events.OfFleet:
		d.fleet(h.Fleet())
	}
	return strings.Join(d, " ")
}

type description []string

func (d *description) add(name string, value any) {
	if s := fmt.Sprint(value); s != "" && s != "0" && s != "false" {
		*d = append(*d, name+"="+s)
	}
}

func (d *description) list(name string, c *Catalogue) {
	if c.Digest != "" || c.Changed != 0 && name != "tools" {
		d.add(name, fmt.Sprintf("%s:%d/%s@%d", c.Digest, c.Count, c.State, c.Changed))
	}
}

func (d *description) progress(p *Progress) {
	d.add("unknown", p.Unknown)
	d.add("last-unknown", p.LastUnknown)
	d.add("undecodable", p.Undecodable)
}

func (d *description) server(s *Server) {
	d.add("want", s.Wanted())
	d.add("enabled", s.Enabled)
	if s.Definition != nil {
		d.add("command", s.Definition.Command)
	}
	d.add("withdrawn", s.Withdrawn)
	d.add("generation", s.Generation)
	d.add("actor", s.Actor)
	d.add("restart", s.Restart)
	if s.Move != nil {
		d.add("move", s.Move.Worker)
	}
	if s.Update != nil {
		d.add("updating-from", s.Update.From.Command)
	}
	if s.Rollback != nil {
		d.add("rolled-back", s.Rollback.Failure.Code)
	}
	if s.Rejection != nil {
		d.add("rejected", len(s.Rejection.Reasons))
	}
	for _, q := range s.Requests {
		d.add("request", fmt.Sprintf("%s@%d", q.ID, q.Seq))
	}
	d.progress(&s.Progress)
}

func (d *description) instance(i *Instance) {
	*d = append(*d, string(i.State), "("+string(i.State.Reach())+")")
	d.add("worker", i.Worker)
	d.add("epoch", i.Epoch)
	d.add("attempt", i.Attempt)
	d.add("definition", i.Definition)
	if i.Connection != nil {
		d.add("protocol", i.Connection.Protocol)
	}
	d.list("tools", &i.Tools)
	d.list("resources", &i.Resources)
	d.list("prompts", &i.Prompts)
	if i.Failure != nil {
		d.add("failure", i.Failure.Code)
	}
	if i.LastFailure != nil && i.LastFailure != i.Failure {
		d.add("last-failure", i.LastFailure.Code)
	}
	if i.Next != nil {
		d.add("next-in", i.Next.At.Sub(i.Updated))
	}
	d.add("stuck", i.Stuck())
	d.add("hint", i.Hint)
	d.add("how", i.How)
	d.add("failures", fmt.Sprintf("%d/%d", i.FailuresInRow, i.Failures))
	d.add("restarts", i.Restarts)
	if !i.ReadySince.IsZero() {
		d.add("ready-for", i.Updated.Sub(i.ReadySince))
	}
	if !i.DownSince.IsZero() {
		d.add("down-for", i.Updated.Sub(i.DownSince))
	}
	d.progress(&i.Progress)
}

func (d *description) worker(w *Worker) {
	*d = append(*d, string(w.State))
	d.add("incarnation", w.Incarnation)
	d.add("draining", w.Draining)
	d.add("cordoned", w.Cordoned)
	d.add("eligible", w.Eligible())
	d.add("joins", w.Joins)
	d.progress(&w.Progress)
}

func (d *description) fleet(f *Fleet) {
	d.add("frozen", f.Frozen != nil)
	if f.Leader != nil {
		d.add("leader", f.Leader.Controller)
	}
	for _, s := range f.Sources {
		d.add("source", fmt.Sprintf("%s:%d,%d,%q", s.Source.Path, s.Accepted, s.Rejected, s.Error))
	}
	for _, r := range f.Rejections {
		d.add("rejected", r.ID)
	}
	d.progress(&f.Progress)
}
