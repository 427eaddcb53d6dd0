package show

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolfleet/toolfleet/projections"
)

// A drawing replaces the one before; what others write appears above it.
func TestLive(t *testing.T) {
	var screen strings.Builder
	l := &Live{w: &screen, columns: 10}
	l.Draw([]string{"one", "two"})
	l.Draw([]string{"one", "two"})
	fmt.Fprintln(l.Above(&screen), "note")
	l.Draw([]string{"a line that is too long"})
	l.Leave()
	l.Draw([]string{"last"})
	want := "one\ntwo\n" +
		"\x1b[2A\x1b[Jnote\none\ntwo\n" +
		"\x1b[2A\x1b[Ja line tha\n" +
		"last\n"
	if screen.String() != want {
		t.Errorf("got %q, want %q", screen.String(), want)
	}
	if NewLive(&screen) != nil {
		t.Error("a file was taken for a terminal")
	}
}

func TestCutPainted(t *testing.T) {
	line := "ab" + string(green) + "cdé" + unpaint + "fg"
	for columns, want := range map[int]string{
		1: "a",
		3: "ab" + string(green) + "c" + unpaint,
		6: "ab" + string(green) + "cdé" + unpaint + "f",
		9: line,
	} {
		if got := cutPainted(line, columns); got != want {
			t.Errorf("%d columns: got %q, want %q", columns, got, want)
		}
	}
}

// Colours do not move columns.
func TestPaintedLines(t *testing.T) {
	list := []projections.Status{{ID: "a", State: projections.Ready}, {ID: "b", State: projections.Parked}, {ID: "c", State: projections.Stopped}}
	plain, painted := Servers.lines(NewFormat(), list, false), Servers.lines(NewFormat(), list, true)
	for i := range plain {
		bare := strings.NewReplacer(string(green), "", string(red), "", unpaint, "").Replace(painted[i])
		if bare != plain[i] {
			t.Errorf("got %q, want %q", bare, plain[i])
		}
	}
	if !strings.Contains(painted[1], string(green)+"ready"+unpaint) || !strings.Contains(painted[2], string(red)+"parked") || painted[3] != plain[3] {
		t.Errorf("got %q", painted)
	}
}
