package story

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
	"github.com/toolfleet/toolfleet/projections"
)

var update = flag.Bool("update", false, "write the answers that the scenarios in testdata now give")

// TestWhy runs the stories in testdata/why. A line
//
//   - <chain> <kind> [<body>] [epoch=N] [attempt=N] [cause=N] [actor=NAME] [reason=WORDS]
//
// is an event, a second after the one before it; cause is a sequence, and words
// have '~' for spaces. A line
//
//	? <subject> [waiting=WORDS] [later=SECONDS]
//
// asks, and those after it, which begin with "=", are the answer.
func TestWhy(t *testing.T) {
	files, err := filepath.Glob("testdata/why/*.txt")
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
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

// stage is a history as far as a scenario has told it.
type stage struct {
	history projections.History
	records []events.Record
	epochs  map[events.Chain]events.Epoch
}

func play(t *testing.T, scenario []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	s := stage{epochs: make(map[events.Chain]events.Epoch)}
	lines := bufio.NewScanner(bytes.NewReader(scenario))
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "=") {
			continue
		}
		fmt.Fprintln(&out, line)
		if story, ok := strings.CutPrefix(line, "+ "); ok {
			s.tell(t, story)
		}
		if question, ok := strings.CutPrefix(line, "? "); ok {
			writeAnswer(&out, s.ask(t, question))
		}
	}
	return out.Bytes()
}

var dawn = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (s *stage) tell(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	chain, err := events.ParseChain(words[0])
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	seq := s.history.Seq() + 1
	e := events.Event{
		Chain: chain, ID: events.EventID(fmt.Sprintf("e%d", seq)), Source: "test",
		Time: dawn.Add(time.Duration(seq) * time.Second), Epoch: s.epochs[chain],
		Body: events.Unknown{Type: events.Kind("placeholder").Type()}, Data: []byte("{}"),
	}
	data := "{}"
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
		case "cause":
			e.Cause = "e" + value
		case "actor":
			e.Actor = value
		case "reason":
			e.Reason = strings.ReplaceAll(value, "~", " ")
		default:
			t.Fatalf("%s: what is %s?", line, w)
		}
	}
	m, err := events.Encode("f", &e)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	m.Header["ce-type"], m.Data = []string{events.Kind(words[1]).Type()}, []byte(strings.ReplaceAll(data, "~", " "))
	r := events.Read(m, seq)
	if _, broken := r.Body.(events.Undecodable); broken {
		t.Fatalf("%s: %+v", line, r.Body)
	}
	if a, ok := r.Body.(events.Assigned); ok {
		s.epochs[chain] = a.Epoch
		r.Epoch = a.Epoch
	}
	s.history.Apply(r)
	s.records = append(s.records, r)
}

func (s *stage) ask(t *testing.T, line string) *Answer {
	t.Helper()
	words := strings.Fields(line)
	q := &Question{Subject: words[0], History: &s.history, Now: dawn.Add(time.Duration(s.history.Seq()) * time.Second)}
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "waiting":
			q.Waiting = func(events.ServerID, events.InstanceID) string { return strings.ReplaceAll(value, "~", " ") }
		case "later":
			n, _ := strconv.Atoi(value)
			q.Now = q.Now.Add(time.Duration(n) * time.Second)
		case "list":
			q.Names = func(events.Digest) ([]string, bool) { return strings.Split(value, ","), true }
		default:
			t.Fatalf("%s: what is %s?", line, w)
		}
	}
	for i := range s.records {
		if Concerns(q.Subject, &s.records[i]) {
			q.Records = append(q.Records, s.records[i])
		}
	}
	return Why(q)
}

func writeAnswer(out *bytes.Buffer, a *Answer) {
	fmt.Fprintf(out, "= %s %s: %s\n", a.Kind, a.State, a.Summary)
	for _, s := range a.Because {
		fmt.Fprintf(out, "=   %d %s: %s", s.Seq, s.Kind, s.Text)
		if s.Actor != "" {
			fmt.Fprintf(out, ", by %s", s.Actor)
		}
		if s.Reason != "" {
			fmt.Fprintf(out, ", %q", s.Reason)
		}
		fmt.Fprintln(out)
	}
	if a.Help != "" {
		fmt.Fprintf(out, "=   what helps: %s\n", a.Help)
	}
}
