package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/toolfleet/toolfleet/events"
)

// IDOf returns the id of a server of that name: the name itself if it is legal,
// "" if it is empty. Any other name becomes its legal characters, with one '_'
// for each run of others, then '-' and 8 digits of the name's SHA-256: so
// "a.b" and "a/b" stay two servers, whatever else is in the file.
func IDOf(name string) events.ServerID {
	if id, err := events.ParseServerID(name); err == nil || name == "" {
		return id
	}
	var b strings.Builder
	gap := false
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			b.WriteRune(r)
			gap = false
		case !gap:
			b.WriteByte('_')
			gap = true
		}
	}
	sum := sha256.Sum256([]byte(name))
	const digits = 8
	legal := b.String()
	legal = legal[:min(len(legal), events.MaxIDLength-digits-1)]
	return events.ServerID(legal + "-" + hex.EncodeToString(sum[:])[:digits])
}
