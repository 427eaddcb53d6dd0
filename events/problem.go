package events

import (
	"reflect"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Problem is one reason why a definition cannot be accepted.
type Problem struct {
	// Code is a [Code] such as invalid_definition.
	Code Code `json:"code"`
	// Path is the JSON pointer of the offending member, or "".
	Path string `json:"path,omitzero"`
	// Message says what is wrong and what to do, without any value that might
	// be a secret.
	Message string `json:"message"`
}

// InvalidDefinitionError lists everything that is wrong with a definition.
type InvalidDefinitionError struct {
	// Server is the id, or the name, under which the definition was given.
	Server string
	// Problems are at least one, and at most [MaxProblems] and one that says how
	// many more there are.
	Problems []Problem
}

// Error returns the server and the messages of all problems in one line.
func (e *InvalidDefinitionError) Error() string {
	words := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		words[i] = p.Message
	}
	return "server " + quote(e.Server) + ": " + strings.Join(words, "; ")
}

// DecodeDefinition returns the definition in a JSON text, or an
// [*InvalidDefinitionError] that names the offending member and what it should
// be. It is as strict as the decoding of events, and keeps members that it does
// not know; it does not [Definition.Validate].
func DecodeDefinition(server string, data []byte) (*Definition, error) {
	var d Definition
	err := json.Unmarshal(data, &d)
	if err == nil && jsontext.Value(data).Kind() == '{' {
		return &d, nil
	}
	p := Problem{Code: InvalidDefinition, Message: "the definition must be an object"}
	if err != nil {
		p.Path, p.Message = explainJSON(err)
	}
	return nil, errors.WithStack(&InvalidDefinitionError{Server: server, Problems: []Problem{p}})
}

// explainJSON tells people what a JSON decoder did not like, and where. The
// decoder's own words name Go types and may hold a value.
func explainJSON(err error) (path, message string) {
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic):
		path = shortPath(semantic.JSONPointer)
		return path, dotted(path, "the definition") + " must be " + typeName(semantic.GoType)
	case errors.As(err, &syntactic):
		path = shortPath(syntactic.JSONPointer)
		where := dotted(path, "the definition")
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return path, where + " is there twice: keep one"
		}
		return path, where + " is not valid JSON"
	default:
		return "", "the definition cannot be read" // unreachable: the decoder has no other errors
	}
}

// dotted shows a JSON pointer as people write it, such as "env.PORT".
func dotted(pointer, root string) string {
	if pointer == "" {
		return root
	}
	return strings.Join(slices.Collect(jsontext.Pointer(pointer).Tokens()), ".")
}

// pathTo returns the JSON pointer of an object's member.
func pathTo(object, name string) string {
	return shortPath(jsontext.Pointer("/" + object).AppendToken(name))
}

// shortPath leaves out the last tokens of a pointer as long as it is absurdly
// long: names are untrusted, and problems are stored in events.
func shortPath(p jsontext.Pointer) string {
	const longest = 256
	for len(p) > longest {
		p = p.Parent()
	}
	return string(p)
}

func typeName(t reflect.Type) string {
	switch t {
	case nil:
		return "something else" // unreachable: the decoder names the type
	case reflect.TypeFor[Replicas]():
		return replicasForm
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "an array of strings"
	default:
		return "an object"
	}
}
