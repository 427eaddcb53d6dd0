package events_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
)

var update = flag.Bool("update", false, "write the golden files of kinds that have none")

const goldenDir = "testdata/golden"

// golden is a stored message as a file holds it. The body is indented there.
type golden struct {
	Subject string            `json:"subject"`
	Headers map[string]string `json:"headers"`
	Body    jsontext.Value    `json:"body"`
}

func (g *golden) message(t *testing.T) events.Message {
	m := events.Message{Subject: g.Subject, Header: make(map[string][]string), Data: slices.Clone(g.Body)}
	for name, value := range g.Headers {
		m.Header[name] = []string{value}
	}
	if err := (*jsontext.Value)(&m.Data).Compact(); err != nil {
		t.Fatal(err)
	}
	return m
}

// grown are kinds that got a field since their first golden file, and what tells
// the file of all fields from the former ones, which stay.
var grown = map[events.Kind]string{events.KindDraining: ".2"}

func goldenFile(k events.Kind) string {
	return filepath.Join(goldenDir, strings.TrimPrefix(k.Type(), "dev.toolfleet.")+grown[k]+".json")
}

func readGolden(t *testing.T, file string) events.Message {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (new kinds: go test -update)", err)
	}
	var g golden
	if err := json.Unmarshal(data, &g, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	return g.message(t)
}

// writeGolden writes a file unless it is there: a golden file is kept for ever.
func writeGolden(t *testing.T, file string, m events.Message) {
	g := golden{Subject: m.Subject, Headers: make(map[string]string), Body: m.Data}
	for name, values := range m.Header {
		g.Headers[name] = values[0]
	}
	data, err := json.Marshal(g, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(goldenDir, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if os.IsExist(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(append(data, '\n')); err != nil {
		t.Fatal(err)
	}
}

// Every kind is written as its golden file has it, and the file is read as what
// was written.
func TestGolden(t *testing.T) {
	for _, e := range samples() {
		t.Run(string(e.Kind()), func(t *testing.T) {
			m := encode(t, e)
			if *update {
				writeGolden(t, goldenFile(e.Kind()), m)
			}
			want := readGolden(t, goldenFile(e.Kind()))
			diff(t, "encoded event", want, m)

			got, err := events.Decode(want)
			if err != nil {
				t.Fatal(err)
			}
			diff(t, "stored body", want.Data, []byte(got.Data))
			diff(t, "event with its stored body, encoded again", want, encode(t, got))
			got.Data = nil
			diff(t, "decoded event", e, got)
			diff(t, "decoded event, encoded again", want, encode(t, got))
		})
	}
}

// A later build decodes the golden files of every version that there ever was.
func TestEveryGoldenFileIsDecoded(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(goldenDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := make(map[events.Kind]bool)
	for _, file := range files {
		e, err := events.Decode(readGolden(t, file))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if _, unknown := e.Body.(events.Unknown); unknown {
			t.Errorf("%s holds a %s, which this build does not know any more", file, e.Kind())
		}
		kinds[e.Kind()] = true
	}
	diff(t, "kinds with a golden file", events.Kinds(), slices.Sorted(maps.Keys(kinds)))
}

func encode(t testing.TB, e events.Event) events.Message {
	t.Helper()
	m, err := events.Encode(events.DefaultFleet, &e)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// diff reports how got differs from want.
func diff(t testing.TB, what string, want, got any) {
	t.Helper()
	chains := cmp.Comparer(func(a, b events.Chain) bool { return a == b })
	if d := cmp.Diff(want, got, chains); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}
