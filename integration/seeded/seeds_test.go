// Package seeded holds bugs, and for each the test that must find it.
//
// A bug is a unified diff in testdata against the source as it is, with two lines
// above it: "Bug:" says what it is, and "Found by:" names a package, a test and, if
// not 1, how many runs of it at most.
// The hunks are found by their text, not by line numbers, so that they outlast
// changes elsewhere in a file.
//
//	go test ./integration/seeded                every diff applies
//	.ci/seeded                                  every bug is found
package seeded

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"
)

// root is the module's, seen from here.
const root = "../.."

// seed is one bug.
type seed struct {
	name string
	bug  string
	// pkg and test must find it, within so many runs: where it is a matter of
	// chance, more than 1.
	pkg, test string
	runs      string
	hunks     []hunk
}

// hunk replaces a piece of a file, by its path in the module.
type hunk struct{ file, from, to string }

// seeds returns all bugs.
func seeds(t *testing.T) []seed {
	t.Helper()
	files, err := filepath.Glob("testdata/*.diff")
	if err != nil {
		t.Fatal(err)
	}
	var all []seed
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parse(string(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s.name = strings.TrimSuffix(filepath.Base(name), ".diff")
		all = append(all, s)
	}
	return all
}

func parse(text string) (seed, error) {
	var s seed
	file := ""
	for line := range strings.Lines(text) {
		h := len(s.hunks) - 1
		switch before, rest, _ := strings.Cut(line, " "); {
		case before == "---":
			file = strings.TrimPrefix(strings.TrimSpace(rest), "a/")
		case before == "+++":
		case strings.HasPrefix(line, "@@"):
			s.hunks = append(s.hunks, hunk{file: file})
		case strings.HasPrefix(line, "Bug:"):
			s.bug = strings.TrimSpace(strings.TrimPrefix(line, "Bug:"))
		case strings.HasPrefix(line, "Found by:"):
			f := append(strings.Fields(strings.TrimPrefix(line, "Found by:")), "", "", "1")
			s.pkg, s.test, s.runs = f[0], f[1], cmp.Or(f[2], "1")
		case strings.TrimSpace(line) == "" && h < 0:
		case h < 0:
			return s, errors.Newf("%q belongs to no hunk", line)
		case line[0] == '-':
			s.hunks[h].from += line[1:]
		case line[0] == '+':
			s.hunks[h].to += line[1:]
		default:
			s.hunks[h].from += line[1:]
			s.hunks[h].to += line[1:]
		}
	}
	if s.bug == "" || s.pkg == "" || s.test == "" || len(s.hunks) == 0 {
		return s, errors.New("Bug, Found by or the hunks are missing")
	}
	return s, nil
}

// files returns the changed files, by their path in the module.
func (s *seed) files() (map[string]string, error) {
	changed := make(map[string]string)
	for _, h := range s.hunks {
		text, ok := changed[h.file]
		if !ok {
			data, err := os.ReadFile(filepath.Join(root, h.file))
			if err != nil {
				return nil, err
			}
			text = string(data)
		}
		if n := strings.Count(text, h.from); n != 1 {
			return nil, errors.Newf("%s has %d places that read\n%s", h.file, n, h.from)
		}
		changed[h.file] = strings.Replace(text, h.from, h.to, 1)
	}
	return changed, nil
}

// TestEveryDiffApplies keeps the bugs from rotting: each changes something, and
// the test that must find it is there.
func TestEveryDiffApplies(t *testing.T) {
	all := seeds(t)
	if len(all) < 10 {
		t.Errorf("there are %d bugs", len(all))
	}
	for _, s := range all {
		if _, err := s.files(); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		if !s.testIsThere(t) {
			t.Errorf("%s: %s has no %s", s.name, s.pkg, s.test)
		}
	}
}

func (s *seed) testIsThere(t *testing.T) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, s.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	top, _, _ := strings.Cut(s.test, "/")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+top+"(t *testing.T)") {
			return true
		}
	}
	return false
}

func TestDiffsThatDoNotFit(t *testing.T) {
	const head = "Bug: b\nFound by: ./p TestP\n\n--- a/integration/seeded/seeds_test.go\n+++ b/x\n"
	for name, text := range map[string]string{
		"no hunk":  head,
		"no test":  "Bug: b\n--- a/x\n@@\n-a\n+b\n",
		"no place": head + "@@\n-" + strings.ToUpper("nowhere in this file") + "\n+b\n",
	} {
		s, err := parse(text)
		if err == nil {
			_, err = s.files()
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
