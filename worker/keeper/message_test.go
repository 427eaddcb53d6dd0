package keeper

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"
)

var messages = []message{
	{kind: tellLease, id: 1, value: math.MaxInt64},
	{kind: tellLease, id: math.MaxUint64, value: math.MinInt64},
	{
		kind: askSpawn, id: 7, value: 12, mark: "f/i/s/0/1.1", path: "/bin/sh", dir: "/tmp",
		args: []string{"sh", "", "-c", "echo \xff\x00"}, env: []string{"A=1", "B=" + strings.Repeat("x", 1<<17)},
	},
	{kind: askEnd, id: 3},
	{kind: hasRefused, id: 3, lapsed: true},
	{kind: hasExited, id: 3, value: 0x8b},
}

func encoded(t testing.TB, m *message) []byte {
	t.Helper()
	b, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMessagesArriveAsTheyWereSent(t *testing.T) {
	var stream []byte
	for i := range messages {
		stream = append(stream, encoded(t, &messages[i])...)
	}
	for size := range 7 { // in pieces
		var got []message
		var read []byte
		for rest := stream; len(rest) > 0 || len(got) < len(messages); {
			n := min(1+size*1000, len(rest))
			read, rest = append(read, rest[:n]...), rest[n:]
			for {
				m, after, err := nextFrame(read)
				if err != nil {
					t.Fatal(err)
				}
				if read = after; m == nil {
					break
				}
				got = append(got, *m)
			}
		}
		if d := cmp.Diff(messages, got, cmp.AllowUnexported(message{})); d != "" {
			t.Errorf("messages (-sent +arrived):\n%s", d)
		}
	}
}

func TestFramesThatAreNone(t *testing.T) {
	frame := func(b ...byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	}
	whole := encoded(t, &messages[2])
	for name, b := range map[string][]byte{
		"too large":       binary.BigEndian.AppendUint32(nil, maxFrame+1),
		"empty":           frame(),
		"unknown kind":    frame(byte(afterLastKind), 0, 0, 0, 0, 0, 0, 0, 0),
		"no kind":         frame(0, 0, 0, 0, 0, 0, 0, 0, 0),
		"cut":             frame(whole[frameHeader : len(whole)-1]...),
		"more":            frame(append(encoded(t, &messages[0])[frameHeader:], 0)...),
		"claims too much": frame(byte(askSpawn), 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0),
		"endless number":  frame(byte(askSpawn), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	} {
		if m, _, err := nextFrame(b); !errors.Is(err, errFrame) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	large := message{kind: askSpawn, args: []string{strings.Repeat("a", maxFrame)}}
	if _, err := large.encode(); err == nil {
		t.Error("a message above the limit was encoded")
	}
}

// Whatever comes is a message that is sent the same way again, or is none.
func FuzzNextFrame(f *testing.F) {
	for i := range messages[:2] {
		f.Add(encoded(f, &messages[i]))
	}
	f.Add(encoded(f, &message{kind: askSpawn, path: "/bin/sh", args: []string{"sh", ""}, env: []string{"A=1"}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, rest, err := nextFrame(b)
		if err != nil || m == nil {
			return
		}
		if len(rest) >= len(b) {
			t.Fatal("nothing was taken")
		}
		again, _, err := nextFrame(encoded(t, m))
		if d := cmp.Diff(m, again, cmp.AllowUnexported(message{})); err != nil || d != "" {
			t.Errorf("%v (-first +again):\n%s", err, d)
		}
	})
}
