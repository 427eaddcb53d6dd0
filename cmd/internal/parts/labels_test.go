package parts

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/events"
)

// A host says what it is; what people say of it counts instead.
func TestLabels(t *testing.T) {
	got, err := labelsOf(map[string]string{"zone": "eu", "arch": "other"})
	name, _ := os.Hostname()
	if err != nil || got["os"] != runtime.GOOS || got["arch"] != "other" || got["zone"] != "eu" || got["hostname"] != name {
		t.Errorf("labels are %v, %v", got, err)
	}
	many := make(map[string]string)
	for i := range events.MaxLabels {
		many[fmt.Sprintf("label-%d", i)] = "x"
	}
	for what, labels := range map[string]map[string]string{
		"too many": many, "a bad name": {"my zone": "x"}, "a bad value": {"zone": "x y"}, "no name": {"": "x"},
	} {
		if _, err := labelsOf(labels); exit.Of(err) != exit.Usage {
			t.Errorf("%s: %v", what, err)
		}
	}
}
