package keeper

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// a forest:
//
//	1 - 10 (the helper) - 20 - 21 - 22
//	                    - 30 (an orphan) - 31
//	  - 40
//	50 and 51 are each other's parents: a list that was not taken in one instant
var forest = []process{
	{pid: 1},
	{pid: 10, parent: 1},
	{pid: 20, parent: 10, group: 20},
	{pid: 21, parent: 20, group: 20},
	{pid: 22, parent: 21, group: 22},
	{pid: 30, parent: 10, group: 20},
	{pid: 31, parent: 30, group: 31},
	{pid: 40, parent: 1},
	{pid: 50, parent: 51},
	{pid: 51, parent: 50},
}

func TestDescendants(t *testing.T) {
	for top, want := range map[int][]int{
		10: {10, 20, 21, 22, 30, 31}, 21: {21, 22}, 40: {40}, 99: nil, 50: {50, 51},
	} {
		var got []int
		for _, p := range descendants(forest, []int{top}) {
			got = append(got, p.pid)
		}
		slices.Sort(got)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("below %d (-want +got):\n%s", top, d)
		}
	}
	if got := children(forest, 10); !slices.Equal(got, []int{20, 30}) {
		t.Errorf("children %v", got)
	}
	if got := lineage(forest, 31); len(got) != 4 || !got[31] || !got[30] || !got[10] || !got[1] {
		t.Errorf("lineage %v", got)
	}
	if got := lineage(forest, 50); len(got) != 2 {
		t.Errorf("a circle's lineage %v", got)
	}
}

func TestMarkIn(t *testing.T) {
	for environ, want := range map[string]string{
		"A=1\x00" + Marker + "=f/a\x00B=2\x00":    "f/a",
		Marker + "=f/a\x00":                       "f/a",
		"X" + Marker + "=f/a\x00":                 "",
		"A=" + Marker + "=f/a\x00":                "",
		Marker + "=cut":                           "",
		"A=1\x00" + Marker + "=\x00":              "",
		"":                                        "",
		Marker + "=f/1\x00" + Marker + "=f/2\x00": "f/1",
		"A=1\nTOOLFLEET_INSTANCE=f/a\x00B=several lines": "",
	} {
		if got, ok := markIn(environ); got != want && (ok || want != "") {
			t.Errorf("%q is marked %q, want %q", environ, got, want)
		}
	}
}
