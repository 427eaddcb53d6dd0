package callwire_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

// headerText and parseHeader write and read headers as lines, so that a fuzzer
// can change them.
func headerText(m events.Message) string {
	var text strings.Builder
	for name, values := range m.Header {
		for _, v := range values {
			text.WriteString(name + ":" + v + "\n")
		}
	}
	return text.String()
}

func parseHeader(text string) map[string][]string {
	h := make(map[string][]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		h[name] = append(h[name], value)
	}
	return h
}

func FuzzDecodeRequest(f *testing.F) {
	r := request()
	m := r.Encode(subject)
	f.Add(headerText(m), m.Data)
	f.Add("tf-call:1\ntf-tool:a%20b\ntf-timeout:0\n", []byte(`{"a":1,"a":2}`))
	f.Add("tf-call:1\ntf-method:prompts/get\n", []byte(`{"name":"x"}`))
	f.Add("tf-call:1\ntf-method:tools/call\ntf-tool:x\n", []byte(nil))
	f.Add("tf-call:%C3%9F\ntf-tool:x\ntf-actor: y\n", []byte(`[]`))
	f.Fuzz(func(t *testing.T, header string, data []byte) {
		got, err := callwire.DecodeRequest(events.Message{Subject: subject, Header: parseHeader(header), Data: data})
		if err != nil {
			return
		}
		if got.ID == "" || got.Tool == "" && got.CallsTool() || got.Method == callwire.CallTool || got.Timeout < 0 {
			t.Errorf("%+v", got)
		}
		again, err := callwire.DecodeRequest(got.Encode(subject))
		if err != nil {
			t.Fatal(err)
		}
		// A trace context is passed on, but made fit for a header.
		got.Trace, again.Trace = events.Trace{}, events.Trace{}
		diff(t, "request, encoded and decoded", got, again)
	})
}

func FuzzDecodeFrame(f *testing.F) {
	for _, frame := range callwire.Split(callwire.Result, "call-1", 0, []byte(`{"content":[]}`), 5) {
		m := frame.Encode("_INBOX.a")
		f.Add(headerText(m), m.Data)
	}
	f.Add("tf-frame:error\ntf-call:1\ntf-seq:0\n", []byte(`{"outcome":"failed","code":"other"}`))
	f.Add("tf-frame:cancel\ntf-call:1\n", []byte(nil))
	f.Fuzz(func(t *testing.T, header string, data []byte) {
		m := events.Message{Header: parseHeader(header), Data: data}
		if c, err := callwire.DecodeControl(m); err == nil {
			again, err := callwire.DecodeControl(c.Encode("x"))
			if err != nil {
				t.Fatal(err)
			}
			diff(t, "control, encoded and decoded", c, again)
		}
		got, err := callwire.DecodeFrame(m)
		if err != nil {
			return
		}
		again, err := callwire.DecodeFrame(got.Encode("x"))
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "frame, encoded and decoded", got, again)
		if got.Kind == callwire.Failure {
			if e, err := callwire.DecodeError(got.Data); err == nil {
				again, err := callwire.DecodeError(callwire.EncodeError(e))
				if err != nil || again.Outcome != e.Outcome || again.Failure != e.Failure || again.RPCCode != e.RPCCode {
					t.Errorf("%+v became %+v, %v", e, again, err)
				}
			}
		}
	})
}

// Whatever frames come in whatever order: a Joiner gives whole bodies made of
// frames that follow each other, at most one last one, and nothing after an
// error. Each byte of the program is one frame.
func FuzzJoiner(f *testing.F) {
	f.Add([]byte{0x01, 0x40, 0x01}, []byte("abc"))
	f.Add([]byte{0x00, 0x43, 0x43, 0x03}, []byte("abcdefgh"))
	f.Add([]byte{0x80, 0x20, 0x10}, []byte("x"))
	f.Fuzz(func(t *testing.T, program, data []byte) {
		kinds := []callwire.FrameKind{callwire.Accepted, callwire.Progress, callwire.KeepAlive, callwire.Result, callwire.Failure}
		var j callwire.Joiner
		var body []byte // of the parts so far
		seq, failed, over := 0, false, false
		for _, op := range program {
			frame := callwire.Frame{
				Kind: kinds[int(op&7)%len(kinds)], Call: "a", Seq: seq, More: op&0x40 != 0, Data: data[:min(len(data), int(op>>3&3))],
			}
			if op&0x80 != 0 {
				frame.Seq++
			}
			if op&0x20 != 0 {
				frame.Call = "b"
			}
			whole, err := j.Add(&frame)
			if err != nil {
				failed = true
				if whole != nil {
					t.Fatalf("a frame beside an error: %+v", whole)
				}
				continue
			}
			if failed || over || frame.Seq != seq {
				t.Fatalf("%+v was taken", frame)
			}
			seq++
			body = append(body, frame.Data...)
			if whole == nil {
				if !frame.More {
					t.Fatalf("%+v was kept", frame)
				}
				continue
			}
			if frame.More || whole.Kind != frame.Kind || !bytes.Equal(whole.Data, body) {
				t.Fatalf("%+v became %+v, want %q", frame, whole, body)
			}
			body, over = nil, frame.Kind.Last()
		}
	})
}
