// Package discovery reads configuration files that list MCP servers and turns
// them into definitions.
//
// It reads the mcpServers shape:
//
//	{
//	  "mcpServers": {
//	    "github": { "command": "github-mcp", "args": ["--stdio"], "env": { "TOKEN": "${TOKEN}" } },
//	    "docs":   { "type": "http", "url": "https://docs.example.test/mcp" },
//	  }
//	}
//
// Comments and trailing commas are allowed, and a byte order mark. A map of
// servers without the mcpServers wrapper is accepted when every value is an
// object with a command or a url.
//
// # What is an error
//
// A file that cannot be read as a whole (no JSON: [*SyntaxError]; no servers in
// it: [*ShapeError]) is an error, and then nothing of it is known: whoever
// holds its last good entries keeps them. An entry that cannot be accepted is
// not: it is a [Rejected] with every reason, and the other entries load.
//
// # Names of members
//
// Members are those of [events.Definition]. Besides them are understood, in any
// spelling of upper and lower case where values are named:
//
//	transport, transportType     type
//	streamable-http, streamableHttp, streamable_http   the type http
//	remote, auto                 no type: it follows from command or url
//	enabled                      the opposite of disabled; disabled wins
//	timeout, timeout_ms, tool_timeout_sec              callTimeoutMs
//	startup_timeout_ms, startup_timeout_sec            connectTimeoutMs
//	alwaysAllow                  autoApprove
//
// A member that is null is absent. Numbers and booleans in env and headers are
// taken as text, with a warning. Members that are not known are kept in
// [events.Definition.Unknown]. A member that is there twice is a reason to
// reject the entry; of two entries with one name the last is taken, with a
// warning.
//
// # Names of servers
//
// A name that is no legal id gets one that depends on nothing but the name (see
// [IDOf]); the name itself is kept as the label "name".
//
// Definitions stay unresolved: variables and secrets are left as they are
// written. Only a relative cwd is resolved, against the file's folder. A
// definition may therefore hold literal secrets: they are the file's, and must
// be moved out before it is sent anywhere.
package discovery

import (
	"path/filepath"

	"github.com/tailscale/hujson"

	"github.com/toolfleet/toolfleet/events"
)

// MaxFileSize bounds a configuration file, in bytes: large ones list a few
// hundred servers in 100 KiB.
const MaxFileSize = 1 << 20

// Provider is the provider of the sources of this package's definitions.
const Provider = "file"

// Result is what a configuration file holds.
type Result struct {
	// Entries are the servers that can be accepted, in the file's order. Their
	// ids are distinct.
	Entries []Entry
	// Rejected are the ones that cannot, in the file's order.
	Rejected []Rejected
	// Warnings are about what was accepted, in the file's order.
	Warnings []Warning
}

// Entry is a server that can be accepted.
type Entry struct {
	ID events.ServerID
	// Name is the server's name as the file has it.
	Name       string
	Definition events.Definition
	// Line is where the entry begins, from 1.
	Line int
}

// Rejected is a server that cannot be accepted.
type Rejected struct {
	// ID is empty when the name is.
	ID       events.ServerID
	Name     string
	Problems []events.Problem
	Line     int
}

// Error joins the reasons.
func (r *Rejected) Error() string {
	return (&events.InvalidDefinitionError{Server: r.Name, Problems: r.Problems}).Error()
}

// Source says where the entry is.
func (r *Rejected) Source(path string) *events.Source {
	return &events.Source{Provider: Provider, Path: path, Line: r.Line}
}

// WarningCode is the kind of a [Warning].
type WarningCode string

// The kinds of warning.
const (
	// NoWrapperKey says that the file is a bare map of servers.
	NoWrapperKey WarningCode = "no_wrapper_key"
	// DuplicateName says that an entry is replaced by a later one.
	DuplicateName WarningCode = "duplicate_name"
	// ConflictingFlags says that enabled and disabled contradict each other.
	ConflictingFlags WarningCode = "conflicting_flags"
	// SuspiciousTimeout says that a time limit looks like one in seconds.
	SuspiciousTimeout WarningCode = "suspicious_timeout"
	// CoercedValue says that values that are no text were taken as text.
	CoercedValue WarningCode = "coerced_value"
)

// Warning is something in a file that its author should know.
type Warning struct {
	Code WarningCode
	// Name of the server that it is about, or "".
	Name    string
	Message string
	Line    int
}

// Parse reads a configuration. The path is where it was found; it names the
// source of the definitions and, if it is absolute, the folder of relative
// working directories. An error is a [*SyntaxError] or a [*ShapeError].
func Parse(data []byte, path string) (*Result, error) {
	doc, err := parseDocument(data, path)
	if err != nil {
		return nil, err
	}
	servers, wrapped, err := doc.servers()
	if err != nil {
		return nil, err
	}
	p := &parser{doc: doc, folder: folderOf(path)}
	if !wrapped && len(servers) > 0 {
		p.warn(NoWrapperKey, "", 1, `the servers stand at the top of the file: put them into "mcpServers"`)
	}
	last := p.lastOfEachName(servers)
	for i, m := range servers {
		if name, ok := text(m.Name); ok && last[name] != i || isComment(m) {
			continue
		}
		p.entry(m)
	}
	p.rejectSharedIDs()
	return &p.result, nil
}

func folderOf(path string) string {
	if !filepath.IsAbs(path) {
		return ""
	}
	return filepath.Dir(path)
}

// parser collects the result of one file.
type parser struct {
	doc    *document
	folder string
	result Result
}

func (p *parser) warn(code WarningCode, name string, line int, message string) {
	p.result.Warnings = append(p.result.Warnings, Warning{Code: code, Name: name, Message: message, Line: line})
}

// lastOfEachName returns the index of the entry that is taken for each name,
// and warns about the others.
func (p *parser) lastOfEachName(servers []hujson.ObjectMember) map[string]int {
	last := make(map[string]int, len(servers))
	for i, m := range servers {
		name, ok := text(m.Name)
		if !ok {
			continue
		}
		if before, twice := last[name]; twice {
			here, there := p.doc.line(m.Name), p.doc.line(servers[before].Name)
			p.warn(DuplicateName, name, here, "server "+quote(name)+" is there twice: line "+itoa(here)+
				" is taken, line "+itoa(there)+" is not")
		}
		last[name] = i
	}
	return last
}

// rejectSharedIDs keeps the first of the entries that came to one id: a legal
// name can be what another name's id was made into.
func (p *parser) rejectSharedIDs() {
	names := make(map[events.ServerID]string, len(p.result.Entries))
	kept := p.result.Entries[:0]
	for _, e := range p.result.Entries {
		if other, taken := names[e.ID]; taken {
			p.result.Rejected = append(p.result.Rejected, Rejected{
				ID: e.ID, Name: e.Name, Line: e.Line,
				Problems: []events.Problem{{
					Code:    events.InvalidID,
					Message: "its id " + quote(string(e.ID)) + " is taken by " + quote(other) + ": choose another name",
				}},
			})
			continue
		}
		names[e.ID] = e.Name
		kept = append(kept, e)
	}
	p.result.Entries = kept
}
