package projections

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/toolfleet/toolfleet/events"
)

// Scheme is how the tools of many servers are named in one list.
//
// A name depends on its server and tool alone: not on other servers, nor on the
// order of connecting. Different pairs have different names. Names are made of
// letters, digits, '_' and '-' and are at most [MaxToolName] long, so that every
// model API takes them. A name that had to be changed or cut for that, or could
// be read as that of another pair, ends in '_', 'h' and a hash of the pair.
//
// A name is never parsed: who needs the server or the tool keeps them.
type Scheme uint8

// The schemes.
const (
	// Qualified names are <server>__<tool>.
	Qualified Scheme = iota
	// Prefixed names are mcp_<server>_<tool>.
	Prefixed
)

// MaxToolName is the length of the longest name that all model APIs take, in
// bytes.
const MaxToolName = 64

const (
	hashMark = "_h"
	// hashLength is in characters of five bits: 80 bits, so that a hostile server
	// cannot find a tool name that collides with another server's.
	hashLength = 16
)

// Name returns the name of a server's tool: at most [MaxToolName] letters, digits,
// '_' and '-'. Any text may be the tool.
func (s Scheme) Name(server events.ServerID, tool string) string {
	prefix, separator := "", "__"
	if s == Prefixed {
		prefix, separator = "mcp_", "_"
	}
	name := prefix + string(server) + separator + tool
	if len(name) <= MaxToolName && isPlain(name) && !isHashed(name) && tool != "" && separates(string(server), separator) {
		return name
	}
	return hashed(name, server, tool)
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

func hashed(name string, server events.ServerID, tool string) string {
	sum := sha256.Sum256([]byte(string(server) + "\x00" + tool))
	hash := hashEncoding.EncodeToString(sum[:])[:hashLength]
	name = strings.Map(func(r rune) rune {
		if plainRune(r) {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), MaxToolName-hashLength-len(hashMark))] + hashMark + hash
}
