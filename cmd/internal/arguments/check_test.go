package arguments_test

import (
	"strings"
	"testing"

	"github.com/toolfleet/toolfleet/cmd/internal/arguments"
)

const schema = `{
  "type": "object",
  "properties": {
    "text": {"type": "string", "minLength": 2, "pattern": "^[a-z]*$"},
    "unit": {"enum": ["km", "m"]},
    "count": {"type": "integer", "minimum": 1, "maximum": 9},
    "either": {"anyOf": [{"type": "string"}, {"type": "boolean"}]},
    "nested": {"type": "object", "required": ["deep"]},
    "items": {"type": "array", "items": {"type": ["string", "null"]}, "maxItems": 3}
  },
  "required": ["text"],
  "additionalProperties": false
}`

func TestCheck(t *testing.T) {
	for args, want := range map[string]string{
		`{"text":"ab"}`:                   "",
		`{"text":"ab","count":3.0}`:       "",
		`{}`:                              "text is missing",
		`{"x":1}`:                         "text is missing; x is no argument of this tool",
		`{"text":7}`:                      "text must be a string, not a number",
		`{"text":"A"}`:                    "text must be at least 2 characters long; text must match ^[a-z]*$",
		`{"text":"ab","unit":"mi"}`:       "unit must be one of km, m",
		`{"text":"ab","count":0}`:         "count must be at least 1",
		`{"text":"ab","count":1.5}`:       "count must be a whole number, not a number",
		`{"text":"ab","count":10}`:        "count must be at most 9",
		`{"text":"ab","either":1}`:        "either has none of the forms that are allowed",
		`{"text":"ab","nested":{}}`:       "nested.deep is missing",
		`{"text":"ab","items":["a",3]}`:   "items[1] must be null or a string, not a number",
		`{"text":"ab","items":[1,2,3,4]}`: "items must be a list of at most 3; items[0] must be null or a string, not a number",
		`[]`:                              "the whole must be an object, not an array",
	} {
		err := arguments.Check([]byte(schema), []byte(args))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", args, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
	if err := arguments.Check([]byte(schema), []byte(`{"text":`)); err == nil || !strings.Contains(err.Error(), "no JSON") {
		t.Errorf("no JSON: %v", err)
	}
}

// A schema that is odd, or that wants something read, is left to its server.
func TestCheckLeavesOddSchemasToTheServer(t *testing.T) {
	for _, odd := range []string{
		``, `{`, `7`, `{"type":"nonsense"}`, `{"$ref":"file:///etc/passwd"}`, `{"$ref":"#/nowhere"}`,
		`{"properties":{"a":{"pattern":"(?<=x)y"}}}`,
	} {
		if err := arguments.Check([]byte(odd), []byte(`{"a":1}`)); err != nil {
			t.Errorf("%s: %v", odd, err)
		}
	}
}

func TestCheckTellsOfAFew(t *testing.T) {
	many := `{"text":"ab","a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1}`
	err := arguments.Check([]byte(schema), []byte(many))
	if err == nil || !strings.HasSuffix(err.Error(), "and 2 more") {
		t.Errorf("got %v", err)
	}
}
