package arguments_test

import (
	"strings"
	"testing"

	"github.com/toolfleet/toolfleet/cmd/internal/arguments"
)

func TestRead(t *testing.T) {
	for _, tt := range []struct {
		words string
		want  string
		err   string
	}{
		{"", `{}`, ""},
		{`{"a":1}`, `{"a":1}`, ""},
		{`-`, `{"from":"stdin"}`, ""},
		{`a=b c:=1 d:=[1,2] e:={"f":null} g=`, `{"a":"b","c":1,"d":[1,2],"e":{"f":null},"g":""}`, ""},
		{`q=a=b`, `{"q":"a=b"}`, ""},
		{`a.b=1`, `{"a.b":"1"}`, ""},
		{`[1]`, "", "not a JSON object, but an array"},
		{`7`, "", "not a JSON object, but a number"},
		{`text`, "", "text is not JSON"},
		{`{"a":1`, "", "is not JSON"},
		{`{"a":"b=c"`, "", "is not JSON"},
		{`{} more`, "", `"more"`},
		{`a:=x`, "", "a:=x is not JSON: write a=… for text"},
		{`a=1 a=2`, "", "a is there twice"},
		{`a=1 b`, "", `"b": write name=text or name:=JSON`},
		{`=1`, "", "write name=text"},
		{"a=\xff", "", "no valid Unicode"},
	} {
		var words []string
		if tt.words != "" {
			words = strings.Split(tt.words, " ")
		}
		got, err := arguments.Read(words, strings.NewReader(`{"from":"stdin"}`))
		if string(got) != tt.want || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got %s, %v; want %s, %s", tt.words, got, err, tt.want, tt.err)
		}
	}
}
