package gateway

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
)

// listOf returns a page of tools, which are sorted by name. A cursor is the last
// name of the page before, so that tools which come and go between two pages cost
// none of the others.
func listOf(tools []session.Tool, cursor string, size int, missing []events.ServerID) (jsontext.Value, error) {
	last, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, &rpcError{Code: codeInvalidParams, Message: "the cursor is none of this server's: begin again without one"}
	}
	from, found := slices.BinarySearchFunc(tools, string(last), func(t session.Tool, name string) int { return strings.Compare(t.Name, name) })
	if found {
		from++
	}
	to := min(from+size, len(tools))
	var next string
	if to < len(tools) {
		next = base64.RawURLEncoding.EncodeToString([]byte(tools[to-1].Name))
	}
	return encodePage(tools[from:to], next, missing)
}

// encodePage writes the page by hand: an encoder would write the definitions in
// its own way.
func encodePage(tools []session.Tool, next string, missing []events.ServerID) (jsontext.Value, error) {
	b := []byte(`{"tools":[`)
	for i, t := range tools {
		definition, err := withMember(t.Definition, "name", mustMarshal(t.Name))
		if err != nil {
			return nil, err // unreachable: the session has read it
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, definition...)
	}
	b = append(b, ']')
	if next != "" {
		b = append(append(b, `,"nextCursor":`...), mustMarshal(next)...)
	}
	if len(missing) > 0 {
		b = append(append(b, `,"_meta":{"toolfleet/missing":`...), mustMarshal(missing)...)
		b = append(b, '}')
	}
	return append(b, '}'), nil
}

// instructions names the servers whose tools a client will not find, for the model
// to read; empty if there are none. It has no words of the servers' own.
func instructions(pending []events.ServerID, servers []projections.Status) string {
	var starting, broken []string
	for i := range servers {
		n := &servers[i]
		switch {
		case slices.Contains(pending, n.ID):
			starting = append(starting, string(n.ID))
		case n.Want == events.Running && n.Tools == 0 && n.Status == projections.IsDisconnected:
			broken = append(broken, string(n.ID)+" ("+string(n.State)+")")
		}
	}
	var said []string
	if len(starting) > 0 {
		said = append(said, "Still starting when you connected: "+strings.Join(starting, ", ")+". Their tools are listed as soon as they are known.")
	}
	if len(broken) > 0 {
		said = append(said, "Not working when you connected, so without tools: "+strings.Join(broken, ", ")+".")
	}
	return strings.Join(said, " ")
}
