package main_test

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// block is a fenced block of a page.
type block struct{ info, text string }

// blocks returns the fenced blocks of one section of a page.
func blocks(page, section string) []block {
	_, rest, _ := strings.Cut(page, "\n## "+section+"\n")
	rest, _, _ = strings.Cut(rest, "\n## ")
	var all []block
	var open *block
	for line := range strings.Lines(rest) {
		info, fence := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "```")
		switch {
		case fence && open == nil:
			open = &block{info: info}
		case fence:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += line
		}
	}
	return all
}

// readme does what the README's first ten minutes say, as it is written there:
// blocks of sh are run line by line, and one that names a file is put into it.
func readme(ts *testscript.TestScript, _ bool, _ []string) {
	page, err := os.ReadFile(ts.Getenv("README"))
	ts.Check(err)
	commands := 0
	for _, b := range blocks(string(page), "First ten minutes") {
		kind, name, _ := strings.Cut(b.info, " ")
		switch {
		case name != "":
			ts.Check(os.WriteFile(ts.MkAbs(name), []byte(b.text), 0o600))
		case kind == "sh":
			for line := range strings.Lines(b.text) {
				commands++
				if err := ts.Exec("sh", "-c", line); err != nil {
					ts.Fatalf("%s%v", line, err)
				}
			}
		}
	}
	if commands < 10 {
		ts.Fatalf("only %d commands are in the README's first ten minutes", commands)
	}
}

// What a newcomer has to do before anything works are two commands.
func TestReadmeHasTwoCommands(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	got := blocks(string(page), "Two commands")
	if len(got) != 1 || got[0].text != "$ go run ./cmd/toolfleet up --example\n$ go test ./...\n" {
		t.Errorf("got %q", got)
	}
}

func TestBlocks(t *testing.T) {
	page := "# X\n\n## A\n```sh\nno\n```\n## B\ntext\n```sh\none\ntwo\n```\n```json f.json\n{}\n```\n## C\n```sh\nno\n```\n"
	got := blocks(page, "B")
	if len(got) != 2 || got[0] != (block{"sh", "one\ntwo\n"}) || got[1] != (block{"json f.json", "{}\n"}) {
		t.Errorf("got %q", got)
	}
}
