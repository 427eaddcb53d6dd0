package worker

import (
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

var update = flag.Bool("update", false, "write what the tests find into testdata")

// TestStepScenarios steps the state machine through the scenarios of
// testdata/step. A line that begins with '>' is an input; below it stand the
// stage and the effects.
func TestStepScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/step/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := newScenario(t).play(string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("%s (-want +got):\n%s", file, d)
			}
		})
	}
}

// scenario is a state machine that is driven by text.
type scenario struct {
	t     *testing.T
	state State
	now   time.Time
	rand  float64
}

func newScenario(t *testing.T) *scenario {
	return &scenario{t: t, state: Begin(1, Past{}, true), now: time.Unix(1_800_000_000, 0)}
}

// play returns the text with the outcomes that its inputs have.
func (s *scenario) play(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, ">"):
			b.WriteString(line + "\n")
			s.input(&b, strings.Fields(line[1:]))
		case line == "" || strings.HasPrefix(line, "#"):
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// The definitions that scenarios name.
var scenarioDefinitions = map[string]*events.Definition{
	"local":  {Command: "server"},
	"other":  {Command: "other-server"},
	"label":  {Command: "server", Labels: map[string]string{"team": "a"}},
	"secret": {Command: "server", Env: map[string]string{"TOKEN": "${secret:s/env.TOKEN#1}"}},
	"rotated": {
		Command: "server", Env: map[string]string{"TOKEN": "${secret:s/env.TOKEN#2}"},
	},
	"remote": {URL: "https://example.com/mcp"},
	"policy": {Command: "server", RestartPolicy: &events.RestartPolicy{MaxRestartAttempts: new(2)}},
	"calm":   {Command: "server", HealthCheckIntervalMs: new(int64(0))},
	"never":  {Command: "server", RestartPolicy: &events.RestartPolicy{MaxRestartAttempts: new(0)}},
}

func (s *scenario) input(b *strings.Builder, words []string) {
	in := Input{At: s.now, Rand: s.rand, Ref: s.state.Ref}
	verb, words := words[0], words[1:]
	args := make(map[string]string)
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		args[k] = v
	}
	if ref, ok := args["ref"]; ok {
		if _, err := fmt.Sscanf(ref, "%d/%d/%d", &in.Ref.Epoch, &in.Ref.Generation, &in.Ref.Attempt); err != nil {
			s.t.Fatal(err)
		}
	}
	first := ""
	if len(words) > 0 {
		first = words[0]
	}
	switch verb {
	case "begin":
		_, held := args["unleased"]
		s.state = Begin(1, Past{
			Attempt: s.number(args["attempt"]), Answered: args["answered"] == "yes",
			Worked: args["worked"] == "yes", Restarting: args["restarting"] == "yes",
		}, !held)
		return
	case "wait":
		d, err := time.ParseDuration(first)
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = s.now.Add(d)
		return
	case "rand":
		s.rand, _ = strconv.ParseFloat(first, 64)
		return
	case "command":
		in.What = Commanded{Command: s.command(events.Want(first), args)}
	case "leave":
		in.What = Leaving{Reason: "the worker stops"}
	case "lease":
		in.What = LeaseChanged{Held: first == "held"}
	case "disowned":
		in.What = Disowned{}
	case "elapsed":
		timer := s.state.Timer
		if n, err := strconv.Atoi(first); err == nil {
			timer = n
		}
		quiet, _ := time.ParseDuration(args["quiet"])
		_, busy := args["busy"]
		in.What = Elapsed{Timer: timer, Heard: s.now.Add(-quiet), Busy: busy}
	case "appended":
		in.What = Appended{Kind: events.Kind(first)}
	case "dialed":
		in.What = Dialed{Connected: events.Connected{Protocol: "2025-11-25"}}
	case "listed":
		_, same := args["same"]
		count := 2
		if _, none := args["none"]; none {
			count = 0
		}
		in.What = Listed{Kind: kindIn(args), Listing: events.Listing{Digest: "d1", Count: count}, Same: same}
	case "changed":
		in.What = ListChanged{kindIn(args)}
	case "pingless":
		in.What = PingUnknown{}
	case "hung":
		in.What = StopHung{}
	case "ended":
		f := events.NewFailure(events.Code(first), events.PhaseRun, "")
		in.What = Ended{Failure: f, How: args["how"]}
	default:
		s.t.Fatalf("no input %q", verb)
	}
	before := fmt.Sprintf("%+v", s.state)
	next, effects := Step(s.state, in)
	if now := fmt.Sprintf("%+v", s.state); now != before {
		s.t.Errorf("Step changed the state that it was given:\n%s\n%s", before, now)
	}
	s.state = next
	fmt.Fprintf(b, "%s\n", next.Stage)
	for _, e := range effects {
		fmt.Fprintf(b, "  %s\n", describe(e))
	}
}

func (s *scenario) command(want events.Want, args map[string]string) *events.Command {
	c := &events.Command{Want: want, Epoch: 1, Generation: 1, Cause: "cause"}
	if want == events.Running {
		name := args["def"]
		if name == "" {
			name = "local"
		}
		if c.Definition = scenarioDefinitions[name]; c.Definition == nil {
			s.t.Fatalf("no definition %q", name)
		}
		c.Digest = c.Definition.Digest()
	}
	if g, ok := args["gen"]; ok {
		c.Generation = events.Seq(s.number(g))
	}
	if e, ok := args["epoch"]; ok {
		c.Epoch = events.Epoch(s.number(e))
	}
	c.Restart = events.Seq(s.number(args["restart"]))
	_, c.Frozen = args["frozen"]
	return c
}

// kindIn returns the list that is named, or that of tools.
func kindIn(args map[string]string) ListKind {
	for _, k := range others {
		if _, ok := args[k.String()]; ok {
			return k
		}
	}
	return Tools
}

func (s *scenario) number(text string) int {
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// describe returns an effect as scenarios write it.
func describe(e Effect) string {
	switch e := e.(type) {
	case Append:
		text := fmt.Sprintf("append %s", events.KindOf(e.Body))
		switch b := e.Body.(type) {
		case events.Connecting:
			text += fmt.Sprintf(" attempt=%d generation=%d", b.Attempt, b.Generation)
		case events.Failed:
			text += fmt.Sprintf(" %s (%s) attempt=%d", b.Failure.Code, b.Failure.Phase, b.Attempt)
		case events.RestartScheduled:
			text += fmt.Sprintf(" %s attempt=%d", b.Delay(), b.Attempt)
		case events.Restarted:
			text += fmt.Sprintf(" attempt=%d downtime=%s", b.Attempt, time.Duration(b.DowntimeMs)*time.Millisecond)
		case events.Parked:
			text += fmt.Sprintf(" %s probe=%s", b.Failure.Code, time.Duration(b.ProbeMs)*time.Millisecond)
		case events.Stopping:
			text += " " + b.Reason
		case events.HasStopped:
			text += " " + b.How
		default:
		}
		return text
	case Connect:
		return fmt.Sprintf("connect %d/%d/%d", e.Ref.Epoch, e.Ref.Generation, e.Ref.Attempt)
	case List:
		if e.Kind != Tools {
			return "list " + e.Kind.String()
		}
		return "list"
	case Serve:
		return "serve"
	case Ask:
		if e.Ping {
			return "ask by ping"
		}
		return "ask"
	case Break:
		return fmt.Sprintf("break %s: %s", e.Failure.Code, e.Failure.Message)
	case Close:
		if e.Now {
			return "close now"
		}
		return "close"
	case Sleep:
		return fmt.Sprintf("sleep %s timer=%d", e.For, e.Timer)
	case Finish:
		return "finish"
	}
	return fmt.Sprintf("%T", e)
}
