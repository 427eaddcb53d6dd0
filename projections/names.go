package projections

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/toolfleet/toolfleet/events"
)

// Scheme is how the tools of many servers are named in one list.
//
// Names are made of letters, digits, '_' and '-' and are at most [MaxToolName]
// long, so that every model API takes them. Different tools have different names,
// whatever their servers call them. A name that had to be changed or cut, or could
// be read as that of another tool, ends in '_', 'h' and a hash of server and tool.
// No name depends on the order of connecting.
//
// A name is never parsed: who needs the server or the tool keeps them.
type Scheme uint8

// The schemes.
const (
	// Qualified names are <server>__<tool>. They depend on nothing else: no other
	// server can change or take one.
	Qualified Scheme = iota
	// Prefixed names are mcp_<server>_<tool>, and as independent.
	Prefixed
	// OnCollision names are those that the servers gave, as long as only one has
	// a tool of that name. They depend on all tools of the list: when a second
	// server lists the name, both tools get their qualified ones. So do names that
	// no model API takes. A qualified name that is also what some server calls a
	// tool of its own gets a hash, and that tool keeps its name.
	OnCollision
)

// MaxToolName is the length of the longest name that all model APIs take, in
// bytes.
const MaxToolName = 64

// ToolID identifies a tool: its server, and that server's own name for it.
type ToolID struct {
	Server events.ServerID
	Tool   string
}

// ToolName is the name of a tool in a list.
type ToolName struct {
	Name string
	// Reserved is the name that the tool would have if it were not reserved, or
	// empty.
	Reserved string
}

// Names returns the names of the tools of one list, in the order in which they
// are given. None of them is reserved: a tool whose name would be has its
// qualified one, with a hash where that is not free either.
func (s Scheme) Names(tools []ToolID, reserved []string) []ToolName {
	names := make([]ToolName, len(tools))
	n := s.newNaming(tools, reserved)
	for i, t := range tools {
		names[i].Name = n.wish(t)
		if n.reserved[names[i].Name] {
			names[i] = ToolName{Name: n.qualified(t), Reserved: names[i].Name}
		}
	}
	return names
}

// naming names the tools of one list.
type naming struct {
	scheme   Scheme
	reserved map[string]bool
	// own counts the servers that have a tool of that name; nil where that does
	// not matter.
	own map[string]int
	// taken are names that may be other tools', and are not qualified.
	taken map[string]bool
}

func (s Scheme) newNaming(tools []ToolID, reserved []string) *naming {
	n := &naming{scheme: s, reserved: make(map[string]bool, len(reserved)), taken: make(map[string]bool)}
	for _, name := range reserved {
		n.reserved[name] = true
	}
	switch {
	case s == OnCollision:
		n.own = make(map[string]int, len(tools))
		seen := make(map[ToolID]bool, len(tools))
		for _, t := range tools {
			if !seen[t] {
				n.own[t.Tool]++
			}
			seen[t], n.taken[t.Tool] = true, true
		}
	case s == Prefixed && len(reserved) > 0:
		for _, t := range tools {
			n.taken[s.Name(t.Server, t.Tool)] = true
		}
	}
	return n
}

// wish returns the name of a tool as long as it is not reserved.
func (n *naming) wish(t ToolID) string {
	switch {
	case n.scheme != OnCollision:
		return n.scheme.Name(t.Server, t.Tool)
	case n.own[t.Tool] == 1 && isLegal(t.Tool):
		return t.Tool
	default:
		return n.qualified(t)
	}
}

// qualified returns the qualified name of a tool, with a hash if it is not free.
func (n *naming) qualified(t ToolID) string {
	name := Qualified.Name(t.Server, t.Tool)
	for again := 0; n.taken[name] || n.reserved[name]; again++ {
		name = hashed(string(t.Server)+"__"+t.Tool, t, again)
	}
	return name
}

const (
	hashMark = "_h"
	// hashLength is in characters of five bits: 80 bits, so that a hostile server
	// cannot find a tool name that collides with another server's.
	hashLength = 16
)

// Name returns the name of a tool that depends on it alone; with [OnCollision] the
// one that it has if another server lists the same. Any text may be the tool.
func (s Scheme) Name(server events.ServerID, tool string) string {
	prefix, separator := "", "__"
	if s == Prefixed {
		prefix, separator = "mcp_", "_"
	}
	name := prefix + string(server) + separator + tool
	if isLegal(name) && tool != "" && separates(string(server), separator) {
		return name
	}
	return hashed(name, ToolID{server, tool}, 0)
}

// isLegal says whether a name can be used as it is.
func isLegal(name string) bool {
	return name != "" && len(name) <= MaxToolName && isPlain(name) && !isHashed(name)
}

// separates says whether the first separator behind the server is the one that
// ends it: then a plain name is that of one pair only.
func separates(server, separator string) bool {
	// A server that ends in '_' would make the separator begin earlier.
	return !strings.Contains(server, separator) && !strings.HasSuffix(server, "_") && server != ""
}

func isPlain(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !plainRune(r) }) < 0
}

func plainRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

var hashEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// isHashed says whether a name has the form of one with a hash. Such a name is
// never used as it is.
func isHashed(name string) bool {
	at := len(name) - hashLength - len(hashMark)
	if at < 0 || !strings.HasPrefix(name[at:], hashMark) {
		return false
	}
	return strings.Trim(name[at+len(hashMark):], "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// hashed returns a name with a hash of the tool, another one each time again.
func hashed(name string, t ToolID, again int) string {
	// No server's id has a zero byte in it.
	sum := sha256.Sum256([]byte(strings.Repeat("\x00", again) + string(t.Server) + "\x00" + t.Tool))
	hash := hashEncoding.EncodeToString(sum[:])[:hashLength]
	name = strings.Map(func(r rune) rune {
		if plainRune(r) {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), MaxToolName-hashLength-len(hashMark))] + hashMark + hash
}
