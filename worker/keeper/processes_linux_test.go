package keeper

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStat(t *testing.T) {
	const rest = " 7 8 9 34816 42 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 1000"
	got, ok := parseStat("42 (a) b (c) S" + rest)
	want := process{pid: 42, parent: 7, group: 8, session: 9, start: 12345}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(process{})); !ok || d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got, ok := parseStat("42 (a) Z" + rest); !ok || !got.ended {
		t.Error("a zombie is alive")
	}
	if got, ok := parseStat("42 (a) Z" + strings.Replace(rest, "20 0 1 0", "20 0 2 0", 1)); !ok || got.ended {
		t.Error("a process of which only the first thread has ended is not alive")
	}
	for _, bad := range []string{"", "42", "42 (a) S", "42 (a) S 1 2 3", "x (a) S" + rest, "42 (a) S 1 x" + rest} {
		if p, ok := parseStat(bad); ok {
			t.Errorf("%q is %+v", bad, p)
		}
	}
}
