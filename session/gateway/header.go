package gateway

import (
	"bytes"
	"encoding/base64"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// sessionHeader is the protocol's up to 2025-11-25, the others are of later
	// revisions as well.
	sessionHeader  = "Mcp-Session-Id"
	revisionHeader = "Mcp-Protocol-Version"
	methodHeader   = "Mcp-Method"
	nameHeader     = "Mcp-Name"
	// paramHeader begins the names of headers that repeat arguments.
	paramHeader = "Mcp-Param-"
)

// checkName checks the header that repeats what a request is about.
func (m *message) checkName(h http.Header) *rpcError {
	var p struct {
		Name string `json:"name"`
		URI  string `json:"uri"`
	}
	switch m.Method {
	case "tools/call", "prompts/get", "resources/read":
	default:
		return nil
	}
	if err := read(m.Params, &p); err != nil {
		return asRPC(err)
	}
	name := p.Name
	if m.Method == "resources/read" {
		name = p.URI
	}
	if said, ok := plain(h.Get(nameHeader)); !ok || said != name || h[nameHeader] == nil {
		return malformed(codeHeaders, "the header "+nameHeader+" is not what the request names")
	}
	return nil
}

// plain returns what a header says that may be in base64, as what is no plain text
// has to be.
func plain(header string) (string, bool) {
	text, ok := strings.CutPrefix(header, "=?base64?")
	if !ok {
		return header, true
	}
	if text, ok = strings.CutSuffix(text, "?="); !ok {
		return header, true
	}
	data, err := base64.StdEncoding.DecodeString(text)
	return string(data), err == nil
}

// schema is of a schema what names the headers that repeat arguments.
type schema struct {
	Header     jsontext.Value    `json:"x-mcp-header"`
	Properties map[string]schema `json:"properties"`
}

// checkParams checks the headers that repeat arguments of a tool, as its schema
// asks for. A schema that cannot be read asks for none.
func checkParams(h http.Header, inputSchema, arguments jsontext.Value) *rpcError {
	if !bytes.Contains(inputSchema, []byte("x-mcp-header")) {
		return nil
	}
	var s schema
	if json.Unmarshal(inputSchema, &s) != nil {
		return nil
	}
	return s.check(h, arguments)
}

func (s *schema) check(h http.Header, arguments jsontext.Value) *rpcError {
	given := make(map[string]jsontext.Value)
	if arguments.Kind() == '{' && json.Unmarshal(arguments, &given) != nil {
		return nil // the session refuses them
	}
	for name, property := range s.Properties {
		var header string
		if json.Unmarshal(property.Header, &header) == nil && header != "" {
			if !repeats(h[http.CanonicalHeaderKey(paramHeader+header)], given[name]) {
				return malformed(codeHeaders, "the header "+paramHeader+header+" is not the argument "+name)
			}
		}
		if err := property.check(h, given[name]); err != nil {
			return err
		}
	}
	return nil
}

// repeats says whether a header says what an argument does; there is none for one
// that is not given, or null. Numbers are compared as such.
func repeats(header []string, argument jsontext.Value) bool {
	if argument == nil || argument.Kind() == 'n' {
		return len(header) == 0
	}
	if len(header) != 1 {
		return false
	}
	said, ok := plain(header[0])
	if !ok {
		return false
	}
	switch argument.Kind() {
	case '"':
		var text string
		return json.Unmarshal(argument, &text) == nil && text == said
	case '0':
		a, errA := strconv.ParseFloat(said, 64)
		b, errB := strconv.ParseFloat(string(argument), 64)
		return errA == nil && errB == nil && a == b && math.Trunc(a) == a
	default:
		return said == string(argument)
	}
}
