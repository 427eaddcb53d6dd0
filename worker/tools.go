package worker

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
)

// The bounds of a list of tools. They are far above what servers have and below
// what would hurt.
const (
	maxToolPages  = 1000
	maxTools      = 10_000
	maxToolsBytes = 16 << 20
	maxToolBytes  = 256 << 10
	maxToolName   = 128
	maxToolDepth  = 100
	maxReason     = 200 // bytes of a quarantine's reason
)

// tool is a definition as the server sent it.
type tool struct {
	name   string
	raw    jsontext.Value
	digest events.Digest // canonical
}

// catalogue is a complete list of tools, in the order of their names.
type catalogue struct {
	tools       []tool
	quarantined events.Quarantines
}

// toolPage is a page of tools/list.
type toolPage struct {
	Tools      []jsontext.Value `json:"tools"`
	NextCursor string           `json:"nextCursor"`
}

// decodeToolPage splits the result of tools/list. Duplicate names are let
// through here, so that they only cost the tool that has them.
func decodeToolPage(result []byte) (toolPage, error) {
	var p toolPage
	err := json.Unmarshal(result, &p, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return p, err
}

// newCatalogue sorts definitions and leaves out those that cannot be used, and
// those that allowed refuses.
func newCatalogue(definitions []jsontext.Value, allowed func(name string) bool) *catalogue {
	c := &catalogue{}
	for i, raw := range definitions {
		t, q := examineTool(raw)
		switch {
		case q != nil:
			if q.Name == "" {
				q.Name = "#" + strconv.Itoa(i+1)
			}
			c.quarantine(*q)
		case allowed(t.name):
			c.tools = append(c.tools, t)
		}
	}
	slices.SortStableFunc(c.tools, func(a, b tool) int { return strings.Compare(a.name, b.name) })
	c.tools = slices.CompactFunc(c.tools, func(a, b tool) bool {
		if a.name != b.name {
			return false
		}
		c.quarantine(events.Quarantine{Name: a.name, Path: "/name", Reason: "a second tool of that name"})
		return true
	})
	return c
}

func (c *catalogue) quarantine(q events.Quarantine) {
	if c.quarantined.Count++; c.quarantined.Count <= events.MaxNames {
		q.Name, q.Reason = clean(q.Name, maxToolName), clean(q.Reason, maxReason)
		c.quarantined.Items = append(c.quarantined.Items, q)
	}
}

// examineTool returns a tool, or why it cannot be used.
func examineTool(raw jsontext.Value) (tool, *events.Quarantine) {
	bad := func(name, path, reason string) (tool, *events.Quarantine) {
		return tool{}, &events.Quarantine{Name: name, Path: path, Reason: reason}
	}
	if len(raw) > maxToolBytes {
		return bad("", "", "the definition has "+strconv.Itoa(len(raw))+" bytes, at most "+strconv.Itoa(maxToolBytes)+" are allowed")
	}
	var shape struct {
		Name        jsontext.Value `json:"name"`
		InputSchema jsontext.Value `json:"inputSchema"`
	}
	if err := json.Unmarshal(raw, &shape); err != nil {
		return bad("", "", "not a tool definition: "+err.Error())
	}
	var name string
	if json.Unmarshal(shape.Name, &name) != nil {
		return bad("", "/name", "the name is missing, or no text")
	}
	if reason := badName(name); reason != "" {
		return bad(name, "/name", reason)
	}
	if depth(raw) > maxToolDepth {
		return bad(name, "", "nested deeper than "+strconv.Itoa(maxToolDepth)+" levels")
	}
	if path, reason := badSchema(shape.InputSchema); reason != "" {
		return bad(name, path, reason)
	}
	digest, err := events.CanonicalDigest(raw)
	if err != nil {
		return bad(name, "", "no canonical JSON: "+err.Error())
	}
	return tool{name: name, raw: raw, digest: digest}, nil
}

func badName(name string) string {
	switch {
	case name == "":
		return "the name is empty"
	case len(name) > maxToolName:
		return "the name has " + strconv.Itoa(len(name)) + " bytes, at most " + strconv.Itoa(maxToolName) + " are allowed"
	case strings.ContainsFunc(name, invisible):
		return "the name holds control or invisible characters"
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

// blob returns the definitions as one JSON array, each as it was sent.
func (c *catalogue) blob() []byte {
	n := 2
	for _, t := range c.tools {
		n += len(t.raw) + 1
	}
	b := append(make([]byte, 0, n), '[')
	for i, t := range c.tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, t.raw...)
	}
	return append(b, ']')
}

// catalogueOf reads a blob that an earlier list was stored as.
func catalogueOf(blob []byte) (*catalogue, error) {
	var definitions []jsontext.Value
	if err := json.Unmarshal(blob, &definitions); err != nil {
		return nil, errors.Wrap(err, "read list of tools")
	}
	c := newCatalogue(definitions, func(string) bool { return true })
	if q := c.quarantined.Items; len(q) > 0 {
		return nil, errors.Newf("read list of tools: %s: %s", q[0].Name, q[0].Reason)
	}
	return c, nil
}

// listing returns how the list differs from an earlier one, whose digest is
// from; without one, all tools are added.
func (c *catalogue) listing(blob []byte, earlier *catalogue, from events.Digest) events.Listing {
	l := events.Listing{Digest: events.DigestOf(blob), Count: len(c.tools), Quarantined: c.quarantined}
	if earlier == nil {
		earlier = &catalogue{}
	} else {
		l.From = from
	}
	old, now := earlier.tools, c.tools
	for len(old) > 0 || len(now) > 0 {
		switch {
		case len(old) == 0 || len(now) > 0 && now[0].name < old[0].name:
			addName(&l.Added, now[0].name)
			now = now[1:]
		case len(now) == 0 || old[0].name < now[0].name:
			addName(&l.Removed, old[0].name)
			old = old[1:]
		default:
			if old[0].digest != now[0].digest {
				addChange(&l.Changed, events.Change{Name: now[0].name, From: old[0].digest, To: now[0].digest})
			}
			old, now = old[1:], now[1:]
		}
	}
	return l
}

func addName(n *events.Names, name string) {
	if n.Count++; n.Count <= events.MaxNames {
		n.Names = append(n.Names, name)
	}
}

func addChange(c *events.Changes, x events.Change) {
	if c.Count++; c.Count <= events.MaxNames {
		c.Items = append(c.Items, x)
	}
}

// changed says whether a list differs from the one it was compared with.
func changed(l *events.Listing, earlier *catalogue) bool {
	return earlier == nil || l.Added.Count > 0 || l.Removed.Count > 0 || l.Changed.Count > 0 ||
		l.Quarantined.Count != earlier.quarantined.Count ||
		!slices.Equal(l.Quarantined.Items, earlier.quarantined.Items)
}
