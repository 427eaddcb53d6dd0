package discovery

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tailscale/hujson"

	"github.com/toolfleet/toolfleet/events"
)

// member reads one member of an entry whose value is not null.
type member func(e *entry, name string, v hujson.Value)

// members are the ones that are not simply members of a definition.
var members = map[string]member{
	"type":          transport,
	"transport":     transport,
	"transportType": transport,
	"enabled":       enabled,
	"env":           texts,
	"headers":       texts,
	"alwaysAllow":   alias("autoApprove"),

	"connectTimeoutMs":    limit("connectTimeoutMs", 1),
	"startup_timeout_ms":  limit("connectTimeoutMs", 1),
	"startup_timeout_sec": limit("connectTimeoutMs", 1000),
	"callTimeoutMs":       limit("callTimeoutMs", 1),
	"timeout":             limit("callTimeoutMs", 1),
	"timeout_ms":          limit("callTimeoutMs", 1),
	"tool_timeout_sec":    limit("callTimeoutMs", 1000),

	// The source is the file that is being read, whatever it says.
	"source": func(*entry, string, hujson.Value) {},
}

func alias(of string) member {
	return func(e *entry, name string, v hujson.Value) { e.take(of, name, plain(v)) }
}

// transport reads the type under any of its names.
func transport(e *entry, name string, v hujson.Value) {
	s, ok := text(v)
	if !ok {
		e.wrongType(pointer(name), v, "a string")
		return
	}
	var t events.Transport
	switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s)) {
	case "stdio", "local":
		t = events.Stdio
	case "http", "streamablehttp":
		t = events.HTTP
	case "sse":
		t = events.SSE
	case "", "remote", "auto":
		return
	default:
		e.invalid("/type", name+" "+quote(s)+" is not supported: use stdio, http or sse")
		return
	}
	e.take("type", name, jsonText(string(t)))
}

func enabled(e *entry, name string, v hujson.Value) {
	switch v.Value.Kind() {
	case 't', 'f':
		on := v.Value.Kind() == 't'
		e.enabled = &on
	default:
		e.wrongType(pointer(name), v, "true or false")
	}
}

// texts reads a map of texts; numbers and booleans are taken as they are
// written, null is absent.
func texts(e *entry, name string, v hujson.Value) {
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		e.wrongType(pointer(name), v, "an object")
		return
	}
	object := []byte{'{'}
	seen := make(map[string]bool, len(o.Members))
	for _, x := range o.Members {
		key, ok := text(x.Name)
		switch {
		case !ok:
			e.invalid(pointer(name), name+" has a key that is no valid Unicode text")
			continue
		case seen[key]:
			e.invalid(pointer(name, key), dotted(pointer(name, key))+" is there twice: keep one")
			continue
		}
		seen[key] = true
		var value jsontext.Value
		switch x.Value.Value.Kind() {
		case 'n':
			continue
		case '"':
			value = plain(x.Value)
		case '0', 't', 'f':
			value = jsonText(string(plain(x.Value)))
			e.coerced = append(e.coerced, dotted(pointer(name, key)))
		default:
			e.wrongType(pointer(name, key), x.Value, "a string")
			continue
		}
		if len(object) > 1 {
			object = append(object, ',')
		}
		object = append(append(append(object, jsonText(key)...), ':'), value...)
	}
	if len(object) > 1 {
		e.take(name, name, append(object, '}'))
	}
}

// limit reads a time limit given in units of so many milliseconds.
func limit(of string, unit float64) member {
	return func(e *entry, name string, v hujson.Value) {
		lit, ok := v.Value.(hujson.Literal)
		if !ok || lit.Kind() != '0' {
			e.wrongType(pointer(name), v, "a number of "+unitName(unit)+", 0 for none")
			return
		}
		switch n, err := strconv.ParseFloat(string(lit), 64); {
		case err == nil && n < 0:
			e.invalid(pointer(name), name+" must be 0 or more "+unitName(unit)+"; 0 is no limit")
		case err != nil || n*unit > maxLimit:
			e.invalid(pointer(name), name+" must be at most "+strconv.FormatFloat(maxLimit/unit, 'f', 0, 64)+
				" "+unitName(unit)+"; 0 is no limit")
		default:
			e.take(of, name, strconv.AppendInt(nil, int64(math.Round(n*unit)), 10))
		}
	}
}

// maxLimit is the longest time limit, in milliseconds: a few years.
const maxLimit = 1e11

func unitName(unit float64) string {
	if unit == 1 {
		return "milliseconds"
	}
	return "seconds"
}

// jsonText returns a JSON string of valid Unicode.
func jsonText(s string) jsontext.Value {
	quoted, _ := jsontext.AppendQuote(nil, s)
	return quoted
}

// pointer returns the JSON pointer of a member (RFC 6901), without the last
// names as long as it is absurdly long.
func pointer(names ...string) string {
	const longest = 256
	var p jsontext.Pointer
	for _, n := range names {
		p = p.AppendToken(n)
	}
	for len(p) > longest {
		p = p.Parent()
	}
	return string(p)
}

// dotted shows a pointer as people write it, such as "env.PORT".
func dotted(pointer string) string {
	if pointer == "" {
		return "a member"
	}
	return strings.Join(slices.Collect(jsontext.Pointer(pointer).Tokens()), ".")
}
