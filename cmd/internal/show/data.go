package show

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// Write writes a value as YAML, if that was chosen, or as JSON, with the same
// members in the same order.
func (f *Format) Write(w io.Writer, v any) error {
	if f.Is(YAML) {
		return writeYAML(w, v)
	}
	return writeJSON(w, v, jsontext.WithIndent("  "))
}

// writeJSON writes a value and a line feed; the members of maps are in the
// order of their names.
func writeJSON(w io.Writer, v any, opts ...json.Options) error {
	data, err := json.Marshal(v, append(opts, json.Deterministic(true))...)
	if err != nil {
		return errors.Wrap(err, "write JSON")
	}
	_, err = w.Write(append(data, '\n'))
	return errors.Wrap(err, "write the output")
}

// writeYAML writes a value's JSON as YAML. It goes through YAML's own parser,
// which takes JSON, so that members keep their order and numbers their digits.
func writeYAML(w io.Writer, v any) error {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err == nil {
		// Not every escape of JSON is one of YAML.
		data, err = jsontext.AppendFormat(nil, data, jsontext.PreserveRawStrings(false))
	}
	var doc yaml.Node
	if err == nil {
		err = yaml.Unmarshal(data, &doc)
	}
	if err != nil {
		return errors.Wrap(err, "write YAML")
	}
	plainStyle(&doc)
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(&doc), e.Close()); err != nil {
		return errors.Wrap(err, "write YAML")
	}
	_, err = w.Write(out.Bytes())
	return errors.Wrap(err, "write the output")
}

// formerBooleans were no text in YAML 1.1, which is still read.
var formerBooleans = []string{"y", "yes", "n", "no", "on", "off"}

// plainStyle takes JSON's brackets and quotes off, where YAML needs none.
func plainStyle(n *yaml.Node) {
	switch {
	case n.Kind == yaml.ScalarNode && slices.Contains(formerBooleans, strings.ToLower(n.Value)):
	case n.Kind == yaml.ScalarNode, len(n.Content) > 0:
		n.Style = 0
	}
	for _, c := range n.Content {
		plainStyle(c)
	}
}
