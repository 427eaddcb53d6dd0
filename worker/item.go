package worker

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
)

// The bounds of an item of a list.
const (
	maxItemBytes = 256 << 10
	maxItemName  = 128
	maxItemURI   = 2 << 10
	maxItemDepth = 100
)

// shape is what is looked at of an item, of whatever list.
type shape struct {
	Name        jsontext.Value `json:"name"`
	URI         jsontext.Value `json:"uri"`
	URITemplate jsontext.Value `json:"uriTemplate"`
	InputSchema jsontext.Value `json:"inputSchema"`
	Arguments   jsontext.Value `json:"arguments"`
}

// examine returns an item, or why it cannot be used.
func (s *section) examine(raw jsontext.Value) (item, *events.Quarantine) {
	bad := func(name, path, reason string) (item, *events.Quarantine) {
		return item{}, &events.Quarantine{Name: name, Path: path, Reason: reason}
	}
	if len(raw) > maxItemBytes {
		return bad("", "", "the definition has "+strconv.Itoa(len(raw))+" bytes, at most "+strconv.Itoa(maxItemBytes)+" are allowed")
	}
	var sh shape
	if err := json.Unmarshal(raw, &sh); err != nil {
		return bad("", "", "not a "+s.noun+" definition: "+err.Error())
	}
	value, limit := sh.Name, maxItemName
	switch s.key {
	case "uri":
		value, limit = sh.URI, maxItemURI
	case "uriTemplate":
		value, limit = sh.URITemplate, maxItemURI
	}
	var name string
	if json.Unmarshal(value, &name) != nil {
		return bad("", "/"+s.key, "the "+s.key+" is missing, or no text")
	}
	if reason := badName(s.key, name, limit); reason != "" {
		return bad(name, "/"+s.key, reason)
	}
	if depth(raw) > maxItemDepth {
		return bad(name, "", "nested deeper than "+strconv.Itoa(maxItemDepth)+" levels")
	}
	if path, reason := s.check(&sh); reason != "" {
		return bad(name, path, reason)
	}
	digest, err := events.CanonicalDigest(raw)
	if err != nil {
		return bad(name, "", "no canonical JSON: "+err.Error())
	}
	return item{name: name, raw: raw, digest: digest}, nil
}

// checkTool, checkResource and checkPrompt say what agents would refuse of an
// item, and with it perhaps of the whole list.

func checkTool(s *shape) (path, reason string) { return badSchema(s.InputSchema) }

func checkResource(s *shape) (path, reason string) {
	var name string
	if json.Unmarshal(s.Name, &name) != nil {
		return "/name", "the name is missing, or no text"
	}
	return "", ""
}

func checkPrompt(s *shape) (path, reason string) {
	if len(s.Arguments) == 0 || s.Arguments.Kind() == 'n' {
		return "", ""
	}
	var all []struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(s.Arguments, &all); err != nil {
		return "/arguments", err.Error()
	}
	for i := range all {
		if all[i].Name == "" {
			return "/arguments/" + strconv.Itoa(i) + "/name", "the name of an argument is missing"
		}
	}
	return "", ""
}

// badName says what is wrong with what identifies an item.
func badName(key, name string, limit int) string {
	switch {
	case name == "":
		return "the " + key + " is empty"
	case len(name) > limit:
		return "the " + key + " has " + strconv.Itoa(len(name)) + " bytes, at most " + strconv.Itoa(limit) + " are allowed"
	case strings.ContainsFunc(name, invisible):
		return "the " + key + " holds control or invisible characters"
	}
	return ""
}

// invisible says whether a character could make one name look like another.
func invisible(r rune) bool {
	return unicode.Is(unicode.C, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || r == utf8.RuneError
}

// badSchema says what makes an input schema unusable: arguments are an object.
// A schema that is absent, or leaves the type out, accepts any.
func badSchema(schema jsontext.Value) (path, reason string) {
	if len(schema) == 0 || schema.Kind() == 'n' {
		return "", ""
	}
	if schema.Kind() != '{' {
		return "/inputSchema", "the schema is no object"
	}
	var s struct {
		Type       jsontext.Value `json:"type"`
		Properties jsontext.Value `json:"properties"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return "/inputSchema", err.Error()
	}
	if len(s.Type) > 0 && string(s.Type) != `"object"` {
		return "/inputSchema/type", `the type is not "object"`
	}
	if len(s.Properties) > 0 && s.Properties.Kind() != '{' {
		return "/inputSchema/properties", "properties are no object"
	}
	return "", ""
}

// depth returns how deep a valid JSON text is nested.
func depth(v jsontext.Value) int {
	deepest, d := 0, 0
	for dec := jsontext.NewDecoder(bytes.NewReader(v)); ; {
		t, err := dec.ReadToken()
		if err != nil {
			return deepest
		}
		switch t.Kind() {
		case '{', '[':
			d++
			deepest = max(deepest, d)
		case '}', ']':
			d--
		}
	}
}
