package gateway

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
)

// kind is a kind of what is listed.
type kind int

const (
	tools     kind = iota
	resources      // and their templates
	prompts
	kinds
)

// changed tells a client that its list of that kind is old.
func (k kind) changed(params jsontext.Value) []byte {
	name := [...]string{tools: "tools", resources: "resources", prompts: "prompts"}[k]
	return notification("notifications/"+name+"/list_changed", params)
}

// freshFor is how long a client may take a whole list for the newest: as long as
// it takes until one that listens is told of a change.
const freshFor = settle

// list answers a list whose entries some function puts into the page after a
// cursor.
func (a *asker) list(ctx context.Context, k kind, member string, entries func(l *page, cursor string) error) (jsontext.Value, error) {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if err := read(a.message.Params, &p); err != nil {
		return nil, err
	}
	a.await(ctx)
	number := a.gateway.number[k].Load() // before the list that is at least as new
	l := page{asker: a, member: member}
	if p.Cursor == "" {
		l.missing = a.gateway.session.Pending()
		a.has(k, number)
	}
	if err := entries(&l, p.Cursor); err != nil {
		return nil, err
	}
	return l.encode()
}

// listTools answers tools/list.
func (a *asker) listTools(l *page, cursor string) error {
	all, _ := a.gateway.session.Tools()
	some, err := cut(l, all, cursor, func(t session.Tool) string { return t.Name })
	for i := range some {
		l.add(shownTool(&some[i]))
	}
	return err
}

// await has a client's first list wait. Where clients are not known, none waits
// for a server longer than the first that did.
func (a *asker) await(ctx context.Context) {
	if a.client == nil {
		a.gateway.await(ctx, true)
	} else if a.client.isFirst() {
		a.gateway.await(ctx, false)
	}
}

// has says which list the client has now.
func (a *asker) has(k kind, number uint64) {
	if c := a.client; c != nil {
		c.mu.Lock()
		c.listed[k], c.hasOne[k] = number, true
		c.mu.Unlock()
	}
}

// page is a part of a list that is written by hand: an encoder would write the
// definitions in its own way.
type page struct {
	asker   *asker
	member  string
	next    string
	missing []events.ServerID
	entries [][]byte
	size    int
	err     error
}

// cut returns the part of a sorted list that a page has. A cursor is the key of
// the last one of the page before, so that what comes and goes between two pages
// costs none of the others.
func cut[T any](l *page, all []T, cursor string, key func(T) string) ([]T, error) {
	last, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, &rpcError{Code: codeInvalidParams, Message: "the cursor is none of this server's: begin again without one"}
	}
	from, found := slices.BinarySearchFunc(all, string(last), func(x T, last string) int { return strings.Compare(key(x), last) })
	if found {
		from++
	}
	to := min(from+l.asker.gateway.options.PageSize, len(all))
	if to < len(all) {
		l.next = base64.RawURLEncoding.EncodeToString([]byte(key(all[to-1])))
	}
	return all[from:to], nil
}

func (l *page) add(definition jsontext.Value, err error) {
	if err != nil {
		l.err = err // unreachable: the session has read it
		return
	}
	l.entries = append(l.entries, definition)
	l.size += len(definition) + len(",")
}

func (l *page) encode() (jsontext.Value, error) {
	if l.err != nil {
		return nil, l.err
	}
	b := make([]byte, 0, l.size+1024)
	b = append(b, '{')
	var about jsontext.Value
	if l.asker.client == nil {
		fresh := freshFor
		if len(l.missing) > 0 {
			fresh = 0
		}
		b = fmt.Appendf(b, `"resultType":"complete","ttlMs":%d,"cacheScope":"private",`, fresh.Milliseconds())
		about = l.asker.gateway.about
	}
	b = fmt.Appendf(b, `"%s":[`, l.member)
	for i, e := range l.entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, e...)
	}
	b = append(b, ']')
	if l.next != "" {
		b = append(append(b, `,"nextCursor":`...), mustMarshal(l.next)...)
	}
	if m := metaOf(about, l.missing); m != nil {
		b = append(append(b, `,"_meta":`...), m...)
	}
	return append(b, '}'), nil
}

// metaOf returns what a list says about itself, or nil for nothing.
func metaOf(about jsontext.Value, missing []events.ServerID) jsontext.Value {
	if about == nil && len(missing) == 0 {
		return nil
	}
	return mustMarshal(struct {
		Server  jsontext.Value    `json:"io.modelcontextprotocol/serverInfo,omitzero"`
		Missing []events.ServerID `json:"toolfleet/missing,omitempty"`
	}{about, missing})
}

// shownTool returns what clients see of a tool: its definition under the session's
// name. Some take none without a description.
func shownTool(t *session.Tool) (jsontext.Value, error) {
	d, err := withMember(t.Definition, "name", mustMarshal(t.Name))
	if err != nil || t.Description != "" {
		return d, err
	}
	return described(d, fmt.Sprintf("The tool %s of server %s.", t.Tool, t.Server))
}

// described returns a definition with a description, in the place of none.
func described(definition jsontext.Value, words string) (jsontext.Value, error) {
	var p struct {
		Description jsontext.Value `json:"description"`
	}
	if err := read(definition, &p); err != nil {
		return nil, err
	}
	if p.Description == nil || p.Description.Kind() == 'n' || string(p.Description) == `""` {
		return withMember(definition, "description", mustMarshal(words))
	}
	return definition, nil
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
