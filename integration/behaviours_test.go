package integration_test

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestBehaviours holds behaviours.md and the tests to each other. The convention
// is in that file's head.
func TestBehaviours(t *testing.T) {
	list, err := os.ReadFile("behaviours.md")
	if err != nil {
		t.Fatal(err)
	}
	named, err := namedInTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, complaint := range compare(list, named) {
		t.Error(complaint)
	}
}

// behaviours maps the id of a behaviour to where it is named.
type behaviours map[string][]string

// compare returns what the list and the tests lack of each other.
func compare(list []byte, named behaviours) []string {
	var complaints []string
	complain := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	listed := make(map[string]bool)
	for _, m := range listLine.FindAllSubmatch(list, -1) {
		id := string(m[1])
		if listed[id] {
			complain("behaviours.md has %s twice: keep one line", id)
		}
		listed[id] = true
		if named[id] == nil {
			complain("no test names %s: write `// %s` at the test that proves it, or take its line out of behaviours.md", id, id)
		}
	}
	for id, places := range named {
		if !listed[id] {
			complain("%s names %s: add the line `| %s | … |` to behaviours.md", strings.Join(places, ", "), id, id)
		}
	}
	slices.Sort(complaints)
	return complaints
}

var (
	listLine = regexp.MustCompile(`(?m)^\| ((?:case )?[A-Z][0-9]+) \| .+ \|$`)
	// A list of ids and what may follow it: the end, or punctuation and words.
	idList = regexp.MustCompile(`^\s*((?:(?:case )?[A-Z][0-9]+, )*(?:case )?[A-Z][0-9]+)(?:$|[.:;])`)
	// Ids before the word "case" are R, M or T.
	behaviour = regexp.MustCompile(`^[RMT][0-9]+$`)
)

// ids returns the ids that a comment begins with. In a comment within a comment,
// as at the end of a sentence, they count as well.
func ids(comment string) []string {
	var found []string
	for part := range strings.SplitSeq(comment, "//") {
		m := idList.FindStringSubmatch(part)
		if m == nil {
			continue
		}
		isCase := false
		for id := range strings.SplitSeq(m[1], ", ") {
			id, after := strings.CutPrefix(id, "case ")
			isCase = isCase || after
			switch {
			case isCase:
				found = append(found, "case "+id)
			case behaviour.MatchString(id):
				found = append(found, id)
			}
		}
	}
	return found
}

// namedInTree finds the ids named in test files, and in the scenarios below
// testdata, where a comment begins with "#" or "//".
func namedInTree(tree fs.FS) (behaviours, error) {
	named := make(behaviours)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() != "testdata" && ignored(d.Name()):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case strings.HasSuffix(name, "_test.go"):
			return named.addGo(tree, name)
		case strings.Contains(name, "testdata/") && slices.Contains([]string{".txt", ".txtar"}, path.Ext(name)):
			return named.addText(tree, name)
		}
		return nil
	})
	return named, err
}

func (b behaviours) addGo(tree fs.FS, name string) error {
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			b.add(ids(c.Text), name, set.Position(c.Pos()).Line)
		}
	}
	return nil
}

func (b behaviours) addText(tree fs.FS, name string) error {
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		return err
	}
	line := 0
	for l := range bytes.Lines(text) {
		line++
		s := strings.TrimSpace(string(l))
		if comment, ok := strings.CutPrefix(s, "#"); ok {
			b.add(ids(comment), name, line)
		} else if strings.HasPrefix(s, "//") {
			b.add(ids(s), name, line)
		}
	}
	return nil
}

func (b behaviours) add(ids []string, name string, line int) {
	for _, id := range ids {
		b[id] = append(b[id], fmt.Sprintf("%s:%d", name, line))
	}
}
