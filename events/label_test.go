package events_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// Labels that are none are refused with the reason, which holds no value.
func TestCheckLabel(t *testing.T) {
	for _, tt := range []struct{ name, value, wrong string }{
		{"zone", "eu-1", ""},
		{"os", "", ""},
		{"example.com/gpu_kind", "A100:2+nv@x", ""},
		{strings.Repeat("n", events.MaxLabelName), strings.Repeat("v", events.MaxLabelValue), ""},
		{"", "x", "has no name"},
		{strings.Repeat("n", events.MaxLabelName+1), "x", "at most 63 are allowed"},
		{"zone", strings.Repeat("v", events.MaxLabelValue+1), "at most 253 are allowed"},
		{"my zone", "x", "ASCII letters"},
		{"zone=", "x", "ASCII letters"},
		{"zöne", "x", "ASCII letters"},
		{"zone\n", "x", "ASCII letters"},
		{"zone", "secret value", "ASCII letters"},
		{"zone", "secret\x00", "ASCII letters"},
		{"zone", "secret,b=c", "ASCII letters"},
	} {
		err := events.CheckLabel(tt.name, tt.value)
		switch {
		case tt.wrong == "" && err != nil, tt.wrong != "" && !errors.Is(err, events.ErrInvalidLabel):
			t.Errorf("%q=%q: error is %v", tt.name, tt.value, err)
		case err != nil && (!strings.Contains(err.Error(), tt.wrong) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%q=%q: error is %v, want it to say %s", tt.name, tt.value, err, tt.wrong)
		}
	}
	d := events.Definition{Command: "x", Placement: &events.Placement{Labels: map[string]string{"zone": "eu", "my zone": "x"}}}
	var invalid *events.InvalidDefinitionError
	if err := d.Validate("s"); !errors.As(err, &invalid) || len(invalid.Problems) != 1 || invalid.Problems[0].Path != "/placement/labels/my zone" {
		t.Errorf("error is %v", err)
	}
}

func TestIsStateful(t *testing.T) {
	for _, tt := range []struct {
		d    events.Definition
		want bool
	}{
		{events.Definition{Command: "x"}, true},
		{events.Definition{URL: "https://x.test"}, false},
		{events.Definition{Type: events.SSE, URL: "https://x.test"}, false},
		{events.Definition{Command: "x", Stateful: new(false)}, false},
		{events.Definition{URL: "https://x.test", Stateful: new(true)}, true},
	} {
		if got := tt.d.IsStateful(); got != tt.want {
			t.Errorf("%+v: stateful is %v", tt.d, got)
		}
	}
}
