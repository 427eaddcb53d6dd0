package callwire_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"
	"pgregory.net/rapid"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

func TestFrameFormat(t *testing.T) {
	f := callwire.Frame{Kind: callwire.Result, Call: "call-1", Seq: 3, More: true, Data: []byte(`{"content`)}
	diff(t, "frame", events.Message{
		Subject: "_INBOX.a",
		Header:  map[string][]string{"tf-frame": {"result"}, "tf-call": {"call-1"}, "tf-seq": {"3"}, "tf-more": {"1"}},
		Data:    []byte(`{"content`),
	}, f.Encode("_INBOX.a"))
	for kind, name := range map[callwire.FrameKind]string{
		callwire.Accepted: "accepted", callwire.Progress: "progress", callwire.Log: "log", callwire.KeepAlive: "keepalive",
		callwire.Result: "result", callwire.Failure: "error", "question": "question",
	} {
		f := callwire.Frame{Kind: kind, Call: "call-1"}
		m := f.Encode("_INBOX.a")
		diff(t, "kind", []string{name}, m.Header["tf-frame"])
		got, err := callwire.DecodeFrame(m)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "decoded", &f, got)
		diff(t, name+" is the last frame", name == "result" || name == "error", kind.Last())
	}
}

func TestDecodeFrameRefuses(t *testing.T) {
	long := strings.Repeat("x", callwire.MaxID+1)
	for name, values := range map[string][]string{
		"tf-frame": {"", long, "é"},
		"tf-call":  {"", long},
		"tf-seq":   {"", "-1", "x", "00", "2147483648", "1.0"},
		"tf-more":  {"0", "true"},
	} {
		for _, value := range values {
			f := callwire.Frame{Kind: callwire.Log, Call: "call-1", Seq: 3}
			m := f.Encode("_INBOX.a")
			m.Header[name] = []string{value}
			if got, err := callwire.DecodeFrame(m); err == nil {
				t.Errorf("%s: %q was decoded: %+v", name, value, got)
			}
		}
	}
	if got, err := callwire.DecodeFrame(events.Message{}); err == nil {
		t.Errorf("nothing was decoded: %+v", got)
	}
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		data  string
		limit int
		want  []string
	}{
		{"", 3, []string{""}},
		{"ab", 3, []string{"ab"}},
		{"abc", 3, []string{"abc"}},
		{"abcd", 3, []string{"abc", "d"}},
		{"abcdef", 3, []string{"abc", "def"}},
		{"abc", 1, []string{"a", "b", "c"}},
		{"abc", 0, []string{"abc"}},
		{"abc", -1, []string{"abc"}},
		{"", 0, []string{""}},
	} {
		frames := callwire.Split(callwire.Result, "call-1", 5, []byte(c.data), c.limit)
		if len(frames) != len(c.want) {
			t.Errorf("%q by %d: %d frames", c.data, c.limit, len(frames))
			continue
		}
		for i, f := range frames {
			diff(t, "part of "+c.data, c.want[i], string(f.Data))
			f.Data = nil
			diff(t, "frame", callwire.Frame{Kind: callwire.Result, Call: "call-1", Seq: 5 + i, More: i < len(frames)-1}, f)
		}
	}
}

// A part that grows does not write into the next one.
func TestPartsAreSeparate(t *testing.T) {
	data := []byte("abcd")
	frames := callwire.Split(callwire.Result, "call-1", 0, data, 2)
	_ = append(frames[0].Data, 'X')
	diff(t, "data", "abcd", string(data))
}

// What is cut is put together again, over the wire, with whole frames around it.
func TestSplitAndJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 5).Draw(t, "limit")
		kinds := []callwire.FrameKind{callwire.Accepted, callwire.Progress, callwire.KeepAlive, callwire.Log, "question"}
		var sent, got []callwire.Frame
		var j callwire.Joiner
		seq := 0
		send := func(kind callwire.FrameKind) {
			data := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "data")
			sent = append(sent, callwire.Frame{Kind: kind, Data: data})
			for _, f := range callwire.Split(kind, "call-1", seq, data, limit) {
				seq++
				decoded, err := callwire.DecodeFrame(f.Encode("_INBOX.a"))
				if err != nil {
					t.Fatal(err)
				}
				whole, err := j.Add(decoded)
				if err != nil {
					t.Fatal(err)
				}
				if (whole == nil) != f.More {
					t.Fatalf("frame %d: %v", f.Seq, whole)
				}
				if whole != nil {
					if whole.More || whole.Call != "call-1" || whole.Seq != f.Seq {
						t.Fatalf("%+v", whole)
					}
					got = append(got, *whole)
				}
			}
		}
		for range rapid.IntRange(0, 5).Draw(t, "frames") {
			send(rapid.SampledFrom(kinds).Draw(t, "kind"))
		}
		send(callwire.Result)
		if len(sent) != len(got) {
			t.Fatalf("%d bodies became %d", len(sent), len(got))
		}
		for i := range sent {
			if sent[i].Kind != got[i].Kind || !bytes.Equal(sent[i].Data, got[i].Data) {
				t.Fatalf("%+v became %+v", sent[i], got[i])
			}
		}
	})
}

func TestJoinerRefuses(t *testing.T) {
	part := func(seq int) callwire.Frame {
		return callwire.Frame{Kind: callwire.Result, Call: "a", Seq: seq, More: true, Data: []byte("x")}
	}
	whole := func(seq int, kind callwire.FrameKind) callwire.Frame {
		return callwire.Frame{Kind: kind, Call: "a", Seq: seq}
	}
	for name, frames := range map[string][]callwire.Frame{
		"a lost first frame":       {whole(1, callwire.Accepted)},
		"a gap":                    {whole(0, callwire.Accepted), whole(2, callwire.Result)},
		"a gap in a body":          {part(0), part(2)},
		"a repeat":                 {whole(0, callwire.Accepted), whole(0, callwire.Accepted)},
		"another order":            {whole(0, callwire.Accepted), whole(2, callwire.Log), whole(1, callwire.Log)},
		"another call":             {whole(0, callwire.Accepted), {Kind: callwire.Log, Call: "b", Seq: 1}},
		"another kind in a body":   {part(0), whole(1, callwire.KeepAlive)},
		"an empty part":            {{Kind: callwire.Result, Call: "a", More: true}},
		"a frame after the result": {whole(0, callwire.Result), whole(1, callwire.Log)},
		"a frame after the error":  {whole(0, callwire.Failure), whole(1, callwire.Result)},
	} {
		var j callwire.Joiner
		var err error
		for i := range frames {
			var got *callwire.Frame
			got, err = j.Add(&frames[i])
			if err != nil && got != nil {
				t.Errorf("%s: a frame beside an error: %+v", name, got)
			}
			if err != nil && name != "another order" && i < len(frames)-1 {
				t.Errorf("%s: frame %d: %v", name, i, err)
			}
		}
		if !errors.Is(err, callwire.ErrFrameLost) || errors.Is(err, callwire.ErrResultTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
		for seq := range 4 {
			next := whole(seq, callwire.Log)
			if got, err := j.Add(&next); !errors.Is(err, callwire.ErrFrameLost) {
				t.Errorf("%s: went on with %+v, %v", name, got, err)
			}
		}
	}
}

func TestJoinerIsBounded(t *testing.T) {
	piece := make([]byte, callwire.MaxResult/4)
	frame := func(seq int, more bool, data []byte) *callwire.Frame {
		return &callwire.Frame{Kind: callwire.Result, Call: "a", Seq: seq, More: more, Data: data}
	}
	var exact callwire.Joiner
	for seq := range 3 {
		if _, err := exact.Add(frame(seq, true, piece)); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := exact.Add(frame(3, false, piece))
	if err != nil || len(whole.Data) != callwire.MaxResult {
		t.Errorf("%v", err)
	}

	var j callwire.Joiner
	for seq := range 4 {
		if _, err := j.Add(frame(seq, true, piece)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if got, err := j.Add(frame(4, false, []byte("x"))); got != nil || !errors.Is(err, callwire.ErrResultTooLarge) {
			t.Errorf("%v, %v", got, err)
		}
	}
	if _, err := new(callwire.Joiner).Add(frame(0, false, make([]byte, callwire.MaxResult+1))); !errors.Is(err, callwire.ErrResultTooLarge) {
		t.Errorf("one large frame: %v", err)
	}
}
