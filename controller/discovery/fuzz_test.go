package discovery

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/events"
)

// Whatever a file holds: no panic, an error of a known type or a result whose
// definitions are valid, can be stored and have legal ids of their own.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.mcp.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("samples: %v, %d files", err, len(files))
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("{\"\xff\": {\"command\": \"\\ud800\"}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		r, err := Parse(data, "/project/mcp.json")
		if !bytes.Equal(before, data) {
			t.Fatal("the input was changed")
		}
		lines := bytes.Count(data, []byte("\n")) + 2
		if err != nil {
			var syntax *SyntaxError
			var shape *ShapeError
			switch {
			case errors.As(err, &syntax):
				if syntax.Line < 1 || syntax.Line > lines || syntax.Column < 1 {
					t.Fatalf("%v is not in the file", err)
				}
			case !errors.As(err, &shape):
				t.Fatalf("error is a %T", err)
			}
			return
		}
		ids := make(map[events.ServerID]bool)
		for _, e := range r.Entries {
			checkEntry(t, &e)
			if ids[e.ID] {
				t.Fatalf("id %s is there twice", e.ID)
			}
			ids[e.ID] = true
		}
		for _, x := range r.Rejected {
			if len(x.Problems) == 0 || x.Line < 1 || x.Line > lines {
				t.Fatalf("rejected without a reason or a line: %+v", x)
			}
		}
	})
}

func checkEntry(t *testing.T, e *Entry) {
	if err := e.Definition.Validate(e.ID); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(&e.Definition)
	if err != nil {
		t.Fatal(err)
	}
	var again events.Definition
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	if again.Digest() != e.Definition.Digest() {
		t.Fatalf("another digest after reading %s again", data)
	}
}
