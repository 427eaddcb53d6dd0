// Package arguments reads and checks the arguments of tool calls.
package arguments

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// schemaURL names a tool's schema while it is compiled; nothing is loaded from
// it.
const schemaURL = "schema:arguments"

// nothing loads nothing: a schema comes from a server, which has no say in what
// this program reads.
type nothing struct{}

func (nothing) Load(url string) (any, error) {
	return nil, errors.Newf("%s is not part of the schema", url)
}

// Check returns nil if the arguments, a JSON object, are as a tool's schema
// wants them, or an error that says for each fault which argument it is and what
// is wanted. A schema that cannot be understood allows everything: its server
// decides.
func Check(schema, arguments []byte) error {
	compiled := compile(schema)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(arguments))
	if err != nil {
		return errors.Wrap(err, "the arguments are no JSON")
	}
	if compiled == nil {
		return nil
	}
	var broken *jsonschema.ValidationError
	if !errors.As(compiled.Validate(value), &broken) {
		return nil
	}
	faults := faultsOf(broken)
	slices.Sort(faults)
	faults = slices.Compact(faults)
	if more := len(faults) - maxFaults; more > 0 {
		faults = append(faults[:maxFaults], fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(faults, "; "))
}

// maxFaults is how many faults are told of at once.
const maxFaults = 10

func compile(schema []byte) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nothing{})
	if c.AddResource(schemaURL, doc) != nil {
		return nil
	}
	compiled, err := c.Compile(schemaURL)
	if err != nil {
		return nil
	}
	return compiled
}

// faultsOf returns what is wrong, as deep as it can be told.
func faultsOf(e *jsonschema.ValidationError) []string {
	switch e.ErrorKind.(type) {
	case *kind.OneOf, *kind.AnyOf, *kind.Not:
		return []string{name(e.InstanceLocation) + " has none of the forms that are allowed"}
	}
	if len(e.Causes) == 0 {
		return words(e)
	}
	var all []string
	for _, cause := range e.Causes {
		all = append(all, faultsOf(cause)...)
	}
	return all
}

// name returns the path of an argument as people write it, such as "items[2]".
func name(path []string) string {
	var b strings.Builder
	for _, p := range path {
		switch {
		case isIndex(p):
			b.WriteString("[" + p + "]")
		case b.Len() > 0:
			b.WriteString("." + p)
		default:
			b.WriteString(p)
		}
	}
	if b.Len() == 0 {
		return "the whole"
	}
	return b.String()
}

func isIndex(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// words says what is wrong with one value.
func words(e *jsonschema.ValidationError) []string {
	at := name(e.InstanceLocation)
	inside := func(member string) string { return name(append(slices.Clone(e.InstanceLocation), member)) }
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		return each(k.Missing, func(m string) string { return inside(m) + " is missing" })
	case *kind.AdditionalProperties:
		return each(k.Properties, func(m string) string { return inside(m) + " is no argument of this tool" })
	case *kind.DependentRequired:
		return each(k.Missing, func(m string) string { return inside(m) + " is missing: it belongs to " + k.Prop })
	case *kind.Type:
		return []string{at + " must be " + typeNames(k.Want) + ", not " + typeNames([]string{k.Got})}
	case *kind.Enum:
		return []string{at + " must be one of " + strings.Join(texts(k.Want), ", ")}
	case *kind.Const:
		return []string{at + " must be " + text(k.Want)}
	case *kind.Pattern:
		return []string{at + " must match " + k.Want}
	case *kind.Format:
		return []string{at + " must be of the format " + k.Want}
	default:
		return append(bounds(at, k), fmt.Sprintf("%s is not as the tool's schema wants it", at))[:1]
	}
}

// bounds says what is wrong with a size or a number, if that is it.
func bounds(at string, k jsonschema.ErrorKind) []string {
	var limit string
	switch k := k.(type) {
	case *kind.Minimum:
		limit = "at least " + k.Want.RatString()
	case *kind.Maximum:
		limit = "at most " + k.Want.RatString()
	case *kind.ExclusiveMinimum:
		limit = "more than " + k.Want.RatString()
	case *kind.ExclusiveMaximum:
		limit = "less than " + k.Want.RatString()
	case *kind.MultipleOf:
		limit = "a multiple of " + k.Want.RatString()
	case *kind.MinLength:
		limit = fmt.Sprintf("at least %d characters long", k.Want)
	case *kind.MaxLength:
		limit = fmt.Sprintf("at most %d characters long", k.Want)
	case *kind.MinItems:
		limit = fmt.Sprintf("a list of at least %d", k.Want)
	case *kind.MaxItems:
		limit = fmt.Sprintf("a list of at most %d", k.Want)
	default:
		return nil
	}
	return []string{at + " must be " + limit}
}

func each(names []string, say func(string) string) []string {
	var all []string
	for _, n := range names {
		all = append(all, say(n))
	}
	return all
}

// typeNames joins JSON Schema's names of types as people call them.
func typeNames(names []string) string {
	called := make([]string, 0, len(names))
	for _, n := range names {
		switch n {
		case "integer":
			n = "a whole number"
		case "object", "array":
			n = "an " + n
		case "null":
		default:
			n = "a " + n
		}
		called = append(called, n)
	}
	return strings.Join(called, " or ")
}

func texts(values []any) []string {
	all := make([]string, 0, len(values))
	for _, v := range values {
		all = append(all, text(v))
	}
	return all
}

func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return fmt.Sprint(v)
}
