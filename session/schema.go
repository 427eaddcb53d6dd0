package session

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Parameters returns the schema of the arguments as model APIs take it: an object
// with a type and properties. Where the server left these out they are added in
// front; everything else is as it sent it.
func (t *Tool) Parameters() jsontext.Value {
	var has struct {
		Type       jsontext.Value `json:"type"`
		Properties jsontext.Value `json:"properties"`
	}
	if t.InputSchema.Kind() != '{' || json.Unmarshal(t.InputSchema, &has) != nil {
		return jsontext.Value(`{"type":"object","properties":{}}`)
	}
	var front []byte
	if has.Type == nil {
		front = append(front, `"type":"object",`...)
	}
	if has.Properties == nil {
		front = append(front, `"properties":{},`...)
	}
	if front == nil {
		return t.InputSchema
	}
	rest := bytes.TrimSpace(bytes.TrimSpace(t.InputSchema)[1:])
	if rest[0] == '}' {
		front = front[:len(front)-1]
	}
	return append(append([]byte("{"), front...), rest...)
}
