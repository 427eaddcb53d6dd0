package gateway

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestDecode(t *testing.T) {
	for _, good := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		`{"id":"a","jsonrpc":"2.0","method":"ping","params":{},"more":1}`,
		`{"jsonrpc":"2.0","method":"x"}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":{}}`,
	} {
		if _, err := decode([]byte(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, code := range map[string]int{
		``:     codeParse,
		`{`:    codeParse,
		`nope`: codeParse,
		`{"jsonrpc":"2.0","id":1,"method":"ping"} {}`:                    codeParse,
		`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`: codeParse,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}":             codeParse,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`:                     codeInvalidRequest,
		`"text"`: codeInvalidRequest,
		`{"jsonrpc":"2.0","id":null,"method":"x"}`:          codeInvalidRequest,
		`{"jsonrpc":"2.0","id":{},"method":"x"}`:            codeInvalidRequest,
		`{"jsonrpc":"1.0","id":1,"method":"ping"}`:          codeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"METHOD":"ping"}`:          codeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":7}`:               codeInvalidRequest,
		`{"jsonrpc":"2.0","id":1}`:                          codeInvalidRequest,
		`{"jsonrpc":"2.0","result":{}}`:                     codeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":"x","params":[]}`: codeInvalidRequest,
	} {
		if _, err := decode([]byte(bad)); err == nil || err.Code != code {
			t.Errorf("%s: %v, want code %d", bad, err, code)
		}
	}
}

func TestWithMember(t *testing.T) {
	for _, tt := range []struct{ object, want string }{
		{`{"name":"a"}`, `{"name":"B"}`},
		{`{ "x" : 1.0 , "name" : "a" , "y":"\u00e9"}`, `{ "x" : 1.0 , "name" : "B" , "y":"\u00e9"}`},
		{`{"n\u0061me":"a"}`, `{"n\u0061me":"B"}`},
		{`{"deep":{"name":"a"},"name":{"name":"a"}}`, `{"deep":{"name":"a"},"name":"B"}`},
		{`{"x":[1]}`, `{"name":"B","x":[1]}`},
		{`{ }`, `{"name":"B" }`},
		{`{}`, `{"name":"B"}`},
	} {
		got, err := withMember(jsontext.Value(tt.object), "name", jsontext.Value(`"B"`))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.object, got, err, tt.want)
		}
	}
	for _, bad := range []string{``, `[]`, `7`, `{`, `{"x"`, `{"x":`, `{"name":}`} {
		if got, err := withMember(jsontext.Value(bad), "name", jsontext.Value(`"B"`)); err == nil {
			t.Errorf("%s: %s", bad, got)
		}
	}
}

func TestAMessageIsOneLine(t *testing.T) {
	got := answer(jsontext.Value("1"), jsontext.Value("{\r\n \"x\": 1.0,\n\t\"y\": \"a b\\n\\u00e9\"}"), nil)
	expect(t, string(got), `{"jsonrpc":"2.0","id":1,"result":{   "x": 1.0, `+"\t"+`"y": "a b\n\u00e9"}}`)
}

// Whatever comes, there is a message or an error to answer with, and what is
// answered is one line of JSON that repeats the id as it was.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		request(1, "tools/call", `{"name":"x","arguments":{"n":1.0}}`), notice("notifications/cancelled", `{"requestId":1}`),
		`[1]`, `{"jsonrpc":"2.0","id":1.5e3,"method":"x"}`, `{"jsonrpc":"2.0","id":"\n","result":null}`, "{\n\"id\":1}", `{"id":-0}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, bad := decode(data)
		if bad == nil && m.Method == "" && m.ID == nil {
			t.Errorf("%q is neither request nor notification nor answer", data)
		}
		var out []byte
		if bad != nil {
			out = failure(m.ID, bad)
		} else if m.isRequest() {
			out = answer(m.ID, m.Params, nil)
			if m.Params == nil {
				out = answer(m.ID, jsontext.Value("{}"), nil)
			}
		}
		if out != nil && (!jsontext.Value(out).IsValid() || strings.ContainsAny(string(out), "\r\n")) {
			t.Errorf("%q is answered with %q", data, out)
		}
		if m.ID != nil && !strings.Contains(string(out), `"id":`+string(m.ID)) && out != nil {
			t.Errorf("%q is answered with %q", data, out)
		}
	})
}

// A member that is set is the one that is read; the rest stays.
func FuzzWithMember(f *testing.F) {
	for _, seed := range []string{`{}`, `{"name":"a","x":1.0}`, `{ "x" : {"name":1} }`, `{"n\u0061me":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v := jsontext.Value(data)
		if !v.IsValid() || v.Kind() != '{' {
			return
		}
		got, err := withMember(v, "name", jsontext.Value(`"B"`))
		if err != nil || !got.IsValid() {
			t.Fatalf("%s: %s, %v", data, got, err)
		}
		var p struct {
			Name string `json:"name"`
		}
		if err := read(got, &p); err != nil || p.Name != "B" {
			t.Errorf("%s: %s, %v", data, got, err)
		}
	})
}
