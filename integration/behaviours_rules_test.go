package integration_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestIDs(t *testing.T) {
	for comment, want := range map[string]string{
		"// R12":                             "R12",
		"// R12, M4":                         "R12 M4",
		"// T3: stopped while it sleeps":     "T3",
		"// case D2":                         "case D2",
		"// R5, case A1, A2":                 "R5 case A1 case A2",
		"// M1, case M1":                     "M1 case M1",
		"// It is sorted. // R19":            "R19",
		"// R3 answers with another code":    "",
		"// the servers are R1, M1":          "",
		"// D2":                              "",
		"// RFC8785: numbers":                "",
		"//nolint:errcheck // R12 is enough": "",
	} {
		if got := strings.Join(ids(comment), " "); got != want {
			t.Errorf("%q names %q, want %q", comment, got, want)
		}
	}
}

func TestNamedInTree(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	named, err := namedInTree(fstest.MapFS{
		"a/a_test.go":              file("package a\n\nvar s = `// " + "R1`\n\n// R2\nfunc f() {\n\tg() // M3\n}\n"),
		"a/a.go":                   file("package a // R4\n"),
		"a/testdata/step/one.txt":  file("# T5: a scenario\ninput dialed\n// case D6\nR7\n"),
		"a/testdata/golden.json":   file("// R8\n"),
		"node_modules/a/a_test.go": file("package a // R9\n"),
		".hidden/a_test.go":        file("package a // R10\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := behaviours{
		"R2": {"a/a_test.go:5"}, "M3": {"a/a_test.go:7"},
		"T5": {"a/testdata/step/one.txt:1"}, "case D6": {"a/testdata/step/one.txt:3"},
	}
	if diff := cmp.Diff(want, named); diff != "" {
		t.Errorf("named (-want +got):\n%s", diff)
	}
}

func TestCompare(t *testing.T) {
	named := behaviours{"R1": {"a_test.go:1"}, "case D2": {"a_test.go:2", "b_test.go:3"}}
	const whole = "# Behaviours\n\n| id | what holds |\n|---|---|\n| R1 | One. |\n| case D2 | Two. |\n"
	if got := compare([]byte(whole), named); len(got) > 0 {
		t.Errorf("complaints about a whole list: %q", got)
	}
	for name, tt := range map[string]struct{ list, want string }{
		"a line is missing": {
			strings.Replace(whole, "| case D2 | Two. |\n", "", 1),
			"a_test.go:2, b_test.go:3 names case D2: add the line `| case D2 | … |` to behaviours.md",
		},
		"a line is empty": {
			strings.Replace(whole, "Two.", "", 1),
			"a_test.go:2, b_test.go:3 names case D2: add the line `| case D2 | … |` to behaviours.md",
		},
		"no test": {
			whole + "| T9 | Nine. |\n",
			"no test names T9: write `// T9` at the test that proves it, or take its line out of behaviours.md",
		},
		"twice": {
			whole + "| R1 | One again. |\n",
			"behaviours.md has R1 twice: keep one line",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff([]string{tt.want}, compare([]byte(tt.list), named)); diff != "" {
				t.Errorf("complaints (-want +got):\n%s", diff)
			}
		})
	}
	if !slices.IsSorted(compare(nil, named)) {
		t.Error("complaints are not in order")
	}
}
