package worker

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestDecodeFrame(t *testing.T) {
	good := map[string]frame{
		`{"jsonrpc":"2.0","id":7,"result":{"a":1,"a":2}}`:     {JSONRPC: "2.0", ID: []byte("7"), Result: []byte(`{"a":1,"a":2}`)},
		`{"id":"7","error":"broken"}`:                         {ID: []byte(`"7"`), Error: []byte(`"broken"`)},
		`{"jsonrpc":"2.0","method":"m","params":{"n":1.0}}`:   {JSONRPC: "2.0", Method: "m", Params: []byte(`{"n":1.0}`)},
		`{"jsonrpc":"2.0","id":null,"method":"m"}`:            {JSONRPC: "2.0", ID: []byte("null"), Method: "m"},
		"{\"id\":1,\"result\":\"\xff\"}":                      {ID: []byte("1"), Result: []byte("\"\ufffd\"")},
		`{"id":1,"result":{"n":9007199254740993},"extra":[]}`: {ID: []byte("1"), Result: []byte(`{"n":9007199254740993}`)},
	}
	for line, want := range good {
		got, ok := decodeFrame([]byte(line))
		if !ok {
			t.Errorf("%s: no frame", line)
			continue
		}
		if d := cmp.Diff(want, *got); d != "" {
			t.Errorf("%s (-want +got):\n%s", line, d)
		}
	}
	for _, line := range []string{
		"", "Server v1 🖥", `{"level":"info"}`, "42", "null", `"text"`, `[{"id":1,"result":{}}]`, `{"id":1}`,
		`{"result":{}}`, `{"ID":1,"RESULT":{}}`, `{"id":1,"result":{}`, "{", `{"method":7}`,
	} {
		if f, ok := decodeFrame([]byte(line)); ok {
			t.Errorf("%s was taken for %+v", line, f)
		}
	}
}

func TestFrameErrors(t *testing.T) {
	for text, want := range map[string]rpcError{
		`{"code":-32050,"message":"full","data":{"n":9007199254740993}}`: {-32050, "full", jsontext.Value(`{"n":9007199254740993}`)},
		`"cursor_invalid"`: {codeInternalError, "cursor_invalid", nil},
		`[1]`:              {codeInternalError, "[1]", nil},
	} {
		f := frame{Error: jsontext.Value(text)}
		if d := cmp.Diff(want, *f.failure()); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
	if n, ok := (&frame{ID: []byte(`"12"`)}).number(); n != 12 || !ok {
		t.Errorf("number %d %v", n, ok)
	}
	if _, ok := (&frame{ID: []byte(`"x"`)}).number(); ok {
		t.Error("a text is a number")
	}
}

func TestEncodeFrame(t *testing.T) {
	f := frame{ID: []byte("1"), Method: "m", Params: []byte("{\n\"b\": 9007199254740993,\n\"a\":1.0, \"a\":2}")}
	line, err := f.encode()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"jsonrpc":"2.0","id":1,"method":"m","params":{"b":9007199254740993,"a":1.0,"a":2}}` + "\n"
	if string(line) != want {
		t.Errorf("%s\nwant %s", line, want)
	}
}

func readAll(r io.Reader, limit int) (all []string, err error) {
	l := newLines(r, limit)
	for {
		line, err := l.next()
		if err != nil {
			return all, err
		}
		all = append(all, string(line))
	}
}

func TestLines(t *testing.T) {
	text := "\ufeff{\"a\":1}\r\n\n  padded \n" + strings.Repeat("x", 200_000) + "\nno end"
	want := []string{`{"a":1}`, "", "padded", strings.Repeat("x", 200_000), "no end"}
	for name, r := range map[string]io.Reader{ // case D6: wherever the bytes are cut
		"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)),
		"halves": iotest.HalfReader(strings.NewReader(text)), "data and end": iotest.DataErrReader(strings.NewReader(text)),
	} {
		got, err := readAll(r, 1<<20)
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: (-want +got):\n%s", name, d)
		}
	}
}

// endless is an endless line.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return copy(p, bytes.Repeat([]byte("x"), len(p))), nil
}

// case D5
func TestLinesAreBounded(t *testing.T) {
	e := &endless{}
	if _, err := readAll(e, 1<<20); !errors.Is(err, errFrameTooLarge) {
		t.Errorf("error %v", err)
	}
	if e.read > 2<<20 {
		t.Errorf("%d bytes were read", e.read)
	}
	got, err := readAll(strings.NewReader("12345678\n123456789\n"), 9)
	if len(got) != 1 || !errors.Is(err, errFrameTooLarge) {
		t.Errorf("%q, %v", got, err)
	}
}

// R31
func TestAnswer(t *testing.T) {
	roots := []string{"file:///a", "file:///b"}
	for method, want := range map[string]string{
		"ping":                   `{"jsonrpc":"2.0","id":"x-1","result":{}}`,
		"roots/list":             `{"jsonrpc":"2.0","id":"x-1","result":{"roots":[{"uri":"file:///a"},{"uri":"file:///b"}]}}`,
		"sampling/createMessage": `{"jsonrpc":"2.0","id":"x-1","error":{"code":-32601,"message":"method not found: sampling/createMessage"}}`,
		"elicitation/create":     `{"jsonrpc":"2.0","id":"x-1","error":{"code":-32601,"message":"method not found: elicitation/create"}}`,
	} {
		line, err := answer(jsontext.Value(`"x-1"`), method, roots).encode()
		if err != nil || string(line) != want+"\n" {
			t.Errorf("%s: %s, %v", method, line, err)
		}
	}
	if f := answer(jsontext.Value("1"), "roots/list", nil); f.Error == nil {
		t.Error("roots were listed that nobody declared")
	}
}

func FuzzDecodeFrame(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":7,"result":{}}`))
	f.Add([]byte("{\"method\":\"m\",\"params\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, line []byte) {
		got, ok := decodeFrame(line)
		if !ok {
			return
		}
		again, err := got.encode()
		if err != nil {
			t.Fatalf("%q cannot be written again: %v", line, err)
		}
		if _, ok := decodeFrame(bytes.TrimSpace(again)); !ok || bytes.Count(again, []byte("\n")) != 1 {
			t.Errorf("%q became %q", line, again)
		}
	})
}
