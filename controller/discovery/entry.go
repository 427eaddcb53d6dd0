package discovery

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tailscale/hujson"

	"github.com/toolfleet/toolfleet/events"
)

// entry is one server while it is read.
type entry struct {
	p    *parser
	name string
	line int

	def      events.Definition
	problems []events.Problem
	// names are the members that were not null, in the file's order.
	names []string
	// taken are the values of the definition's members, and where they are from.
	taken map[string]taken
	// object is the JSON object of those members, without its end.
	object []byte

	// enabled is what a member of that name says.
	enabled *bool
	// coerced are the values of env and headers that were no text.
	coerced []string
}

type taken struct {
	from  string
	value string
}

// entry reads one server and adds it to the entries or to the rejected ones.
func (p *parser) entry(m hujson.ObjectMember) {
	e := &entry{p: p, line: p.doc.line(m.Name), taken: make(map[string]taken)}
	var ok bool
	e.name, ok = text(m.Name)
	id := IDOf(e.name)
	switch {
	case !ok:
		e.problem(events.InvalidID, "", "the name is no valid Unicode text")
	case e.name == "":
		e.problem(events.InvalidID, "", "the name is empty: name the server")
	default:
		if e.read(m.Value) {
			e.finish(id)
		}
	}
	if len(e.problems) > 0 {
		p.result.Rejected = append(p.result.Rejected, Rejected{ID: id, Name: e.name, Problems: e.problems, Line: e.line})
		return
	}
	e.warnings()
	p.result.Entries = append(p.result.Entries, Entry{ID: id, Name: e.name, Definition: e.def, Line: e.line})
}

func (e *entry) problem(code events.Code, path, message string) {
	if len(e.problems) < events.MaxProblems {
		e.problems = append(e.problems, events.Problem{Code: code, Path: path, Message: message})
	}
}

func (e *entry) invalid(path, message string) { e.problem(events.InvalidDefinition, path, message) }

// wrongType reports a member whose value is of the wrong kind, without the
// value.
func (e *entry) wrongType(path string, v hujson.Value, want string) {
	e.invalid(path, dotted(path)+" must be "+want+", not "+kindName(v.Value.Kind()))
}

// read reads the members, and says whether there may be some.
func (e *entry) read(v hujson.Value) bool {
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		e.invalid("", "must be an object with a command or a url, not "+kindName(v.Value.Kind()))
		return false
	}
	seen := make(map[string]bool, len(o.Members))
	for _, m := range o.Members {
		name, ok := text(m.Name)
		switch {
		case !ok:
			e.invalid("", "the name of a member is no valid Unicode text")
			continue
		case seen[name]:
			e.invalid(pointer(name), dotted(pointer(name))+" is there twice: keep one")
			continue
		}
		seen[name] = true
		if m.Value.Value.Kind() == 'n' {
			continue
		}
		e.names = append(e.names, name)
		if read, special := members[name]; special {
			read(e, name, m.Value)
		} else {
			e.take(name, name, plain(m.Value))
		}
	}
	return true
}

// take sets a member of the definition, known or not, from the one of that name
// in the file.
func (e *entry) take(member, from string, value jsontext.Value) {
	if before, twice := e.taken[member]; twice {
		if before.value != string(value) {
			e.invalid(pointer(member), dotted(pointer(before.from))+" and "+dotted(pointer(from))+" contradict each other: keep one")
		}
		return
	}
	e.taken[member] = taken{from, string(value)}
	quoted, _ := jsontext.AppendQuote(nil, member) // it is valid Unicode
	field := append(append(quoted, ':'), value...)
	var invalid *events.InvalidDefinitionError
	if _, err := events.DecodeDefinition(e.name, slices.Concat([]byte{'{'}, field, []byte{'}'})); errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			e.problem(p.Code, p.Path, p.Message)
		}
		return
	}
	e.object = append(append(e.object, separator(e.object)), field...)
}

func separator(object []byte) byte {
	if len(object) == 0 {
		return '{'
	}
	return ','
}

// finish makes the definition of the members, sets what follows from several of
// them, and validates the whole.
func (e *entry) finish(id events.ServerID) {
	if len(e.object) == 0 {
		e.object = []byte{'{'}
	}
	d, err := events.DecodeDefinition(e.name, append(e.object, '}'))
	if err != nil {
		// unreachable unless members that are good one by one are not together.
		e.invalid("", "the definition cannot be read")
		return
	}
	e.def = *d
	if e.enabled != nil && !*e.enabled {
		e.def.Disabled = true
	}
	e.def.Source = &events.Source{Provider: Provider, Path: e.p.doc.path, Line: e.line}
	if string(id) != e.name {
		if e.def.Labels == nil {
			e.def.Labels = make(map[string]string)
		}
		e.def.Labels["name"] = e.name
	}
	e.resolveCwd()
	e.checkStart()
	var invalid *events.InvalidDefinitionError
	if errors.As(e.def.Validate(id), &invalid) {
		for _, p := range invalid.Problems {
			if !slices.ContainsFunc(e.problems, func(q events.Problem) bool { return q.Path == p.Path }) {
				e.problem(p.Code, p.Path, p.Message)
			}
		}
	}
}

// checkStart says more clearly than validation what is wrong with command and
// url.
func (e *entry) checkStart() {
	d := &e.def
	first, rest, spaced := strings.Cut(d.Command, " ")
	remote := d.Type == events.HTTP || d.Type == events.SSE
	switch {
	case d.Command == "" && d.URL == "" && !e.has("command") && !e.has("url"):
		path := "/command"
		if remote {
			path = "/url"
		}
		e.invalid(path, "neither command nor url is there"+e.whatIsThere())
	case d.Type == events.Stdio && d.Command == "" && d.URL != "":
		e.invalid("/command", "the type is stdio, but there is a url and no command: remove the type, or give a command")
	case remote && d.Command != "" && d.URL == "":
		e.invalid("/url", "the type is "+string(d.Type)+", but there is a command and no url: remove the type, or give a url")
	case spaced && rest != "" && len(d.Args) == 0 && !strings.ContainsAny(first, `/\$~`):
		e.invalid("/command", "command holds arguments: keep "+quote(first)+
			" and put the others into args (a program with a space in its name needs its whole path)")
	}
	if d.URL != "" && !strings.Contains(d.URL, "://") && !strings.HasPrefix(d.URL, "${") {
		e.invalid("/url", "url has no scheme: begin it with https:// or http://")
	}
}

// whatIsThere names the members that there are instead, at most a few.
func (e *entry) whatIsThere() string {
	if len(e.names) == 0 {
		return ""
	}
	const shown = 10
	var names []string
	for _, n := range e.names[:min(len(e.names), shown)] {
		names = append(names, cut(n))
	}
	return "; there is: " + strings.Join(names, ", ")
}

func (e *entry) has(name string) bool { return slices.Contains(e.names, name) }

// resolveCwd makes a relative working directory absolute: the worker does not
// know where the file is.
func (e *entry) resolveCwd() {
	cwd := e.def.Cwd
	if cwd == "" || e.p.folder == "" || filepath.IsAbs(cwd) || strings.HasPrefix(cwd, "~") || strings.HasPrefix(cwd, "${") {
		return
	}
	e.def.Cwd = filepath.Join(e.p.folder, cwd)
}

// warnings are given for accepted entries only.
func (e *entry) warnings() {
	if e.enabled != nil && e.taken["disabled"].value != "" && *e.enabled == (e.taken["disabled"].value == "true") {
		e.warn(ConflictingFlags, "enabled and disabled contradict each other: the server is disabled")
	}
	if len(e.coerced) > 0 {
		e.warn(CoercedValue, "not written as text, but taken as such: "+strings.Join(e.coerced, ", "))
	}
	if t := e.def.CallTimeoutMs; e.has("timeout") && t != nil && *t > 0 && *t < 1000 {
		e.warn(SuspiciousTimeout, "timeout is in milliseconds: "+itoa(int(*t))+" ms is very short")
	}
}

func (e *entry) warn(code WarningCode, message string) {
	e.p.warn(code, e.name, e.line, "server "+quote(e.name)+": "+message)
}
