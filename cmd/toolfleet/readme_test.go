package main_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolfleet/toolfleet/cmd/internal/parts"
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

// readme does what a section of the README says, as it is written there: blocks
// that name a file are put into it, and then those of sh are run as one script,
// which a command that fails ends. Only the port of HTTP is another one.
func readme(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: readme SECTION COMMANDS")
	}
	page, err := os.ReadFile(ts.Getenv("README"))
	ts.Check(err)
	least, err := strconv.Atoi(args[1])
	ts.Check(err)
	var script strings.Builder
	for _, b := range blocks(string(page), args[0]) {
		kind, name, _ := strings.Cut(b.info, " ")
		switch {
		case name != "":
			ts.Check(os.WriteFile(ts.MkAbs(name), []byte(b.text), 0o600))
		case kind == "sh":
			script.WriteString(b.text)
		}
	}
	text := strings.ReplaceAll(script.String(), parts.DefaultHTTP, ts.Getenv("TOOLFLEET_HTTP"))
	if n := strings.Count(text, "\n"); n < least {
		ts.Fatalf("only %d commands are in the README's %s", n, args[0])
	}
	ts.Check(ts.Exec("sh", "-e", "-x", "-c", text))
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
