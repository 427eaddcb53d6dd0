package show_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
)

// A terminal gets no contents but text, and nothing that steers it.
func TestContentsOnATerminal(t *testing.T) {
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = screen.Close() }()
	t.Setenv("TERM", "dumb")
	blob := []byte(`{"contents":[{"uri":"a\u001b","mimeType":"image/png","blob":"AP8KDQ=="}]}`)
	err = show.Contents(screen, as(t, show.Text), blob)
	if exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), `a� is not text: "image/png"`) {
		t.Errorf("a blob: %v", err)
	}
	text := []byte(`{"contents":[{"uri":"a","text":"\u001b[2J"}]}`)
	if err := show.Contents(screen, as(t, show.Text), text); err != nil {
		t.Error(err)
	}
}
