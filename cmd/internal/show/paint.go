package show

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/toolfleet/toolfleet/projections"
)

// paint is a colour of a terminal.
type paint string

const (
	noPaint paint = ""
	green   paint = "\x1b[32m"
	yellow  paint = "\x1b[33m"
	red     paint = "\x1b[31m"
	unpaint       = "\x1b[0m"
)

// ofState returns the colour of a server's state.
func ofState(s projections.State) paint {
	switch s.Reach() {
	case projections.IsConnected:
		return green
	case projections.IsConnecting:
		return yellow
	default:
		if s == projections.Stopped || s == projections.Disabled || s == projections.Withdrawn {
			return noPaint
		}
		return red
	}
}

// paints says whether colours may be written: to a terminal that knows them, and
// whose user has not set NO_COLOR.
func paints(w io.Writer) bool {
	_, tty := Width(w)
	return tty && os.Getenv("NO_COLOR") == ""
}

// Width returns how many columns a terminal has, or false for what is none, or
// one that can do nothing but write lines.
func Width(w io.Writer) (columns int, tty bool) {
	size := sizeOf(w)
	switch {
	case size == nil || os.Getenv("TERM") == "dumb":
		return 0, false
	case size.Col == 0:
		return 80, true
	default:
		return int(size.Col), true
	}
}

// sizeOf returns the size of a terminal, or nil for what is none.
func sizeOf(w io.Writer) *unix.Winsize {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return nil
	}
	return size
}
