package show

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
)

// The formats of output.
const (
	Table = "table" // columns for people; the default
	Wide  = "wide"  // more of them
	Name  = "name"  // one name a line
	JSON  = "json"
	YAML  = "yaml"
	Text  = "text" // what is no list, for people
)

// Format is the value of the flag -o.
type Format struct {
	chosen  string
	allowed []string
}

// NewFormat returns a flag that allows those formats; the first is the default.
// With none it allows those of lists.
func NewFormat(allowed ...string) *Format {
	if len(allowed) == 0 {
		allowed = []string{Table, Wide, Name, JSON, YAML}
	}
	return &Format{allowed[0], allowed}
}

// Register adds the flag to a command's.
func (f *Format) Register(flags *pflag.FlagSet) {
	flags.VarP(f, "output", "o", "format of the output: "+strings.Join(f.allowed, ", "))
}

// Is says whether that format was chosen.
func (f *Format) Is(name string) bool { return f.chosen == name }

// Data says whether the output is for programs.
func (f *Format) Data() bool { return f.Is(JSON) || f.Is(YAML) }

// String returns the format.
func (f *Format) String() string { return f.chosen }

// Type is what the flag's value is called in a command's help.
func (f *Format) Type() string { return "format" }

// Set chooses the format.
func (f *Format) Set(s string) error {
	if !slices.Contains(f.allowed, s) {
		return exit.Usagef("use %s", oneOf(f.allowed))
	}
	f.chosen = s
	return nil
}

func oneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
