package keeper

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStat(t *testing.T) {
	got, ok := parseStat("42 (a) b (c) S 7 8 9 34816 42 4194304")
	want := process{pid: 42, parent: 7, group: 8, session: 9}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(process{})); !ok || d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got, _ := parseStat("42 (a) Z 7 8 9"); !got.ended {
		t.Error("a zombie is alive")
	}
	for _, bad := range []string{"", "42", "42 (a) S", "x (a) S 1 2 3", "42 (a) S 1 x 3"} {
		if p, ok := parseStat(bad); ok {
			t.Errorf("%q is %+v", bad, p)
		}
	}
}
