package worker

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
)

const (
	maxReason = 200 // bytes of a quarantine's reason
	maxShown  = 128 // bytes of a name in an event; URIs may be longer
)

// item is a tool, resource, template or prompt as the server sent it.
type item struct {
	section int    // of its list
	name    string // or URI, or template of a URI
	raw     jsontext.Value
	digest  events.Digest // canonical
}

func (t *item) compare(u *item) int {
	return cmp.Or(cmp.Compare(t.section, u.section), strings.Compare(t.name, u.name))
}

// catalogue is a complete list, by section and in the order of the names.
type catalogue struct {
	kind        ListKind
	items       []item
	quarantined events.Quarantines
}

// filter says which of the good items are left out of a catalogue.
type filter struct {
	// allowed, if set, says whether the definition offers a tool; what it does not
	// offer is not mentioned.
	allowed func(name string) bool
	// scrub knows the secrets of the definition. A URI must be passed on as it is,
	// so that one that holds a secret cannot be.
	scrub scrubber
}

// newCatalogue sorts the definitions of each section, and leaves out those that
// cannot be used and those that the filter refuses.
func newCatalogue(kind ListKind, definitions [][]jsontext.Value, f filter) *catalogue {
	c := &catalogue{kind: kind}
	for n := range definitions {
		c.add(n, definitions[n], f)
	}
	slices.SortStableFunc(c.items, func(a, b item) int { return a.compare(&b) })
	c.items = slices.CompactFunc(c.items, func(a, b item) bool {
		if a.compare(&b) != 0 {
			return false
		}
		s := &sections[kind][a.section]
		c.quarantine(events.Quarantine{Name: a.name, Path: "/" + s.key, Reason: "a second " + s.noun + " of that " + s.key})
		return true
	})
	return c
}

// add adds the definitions of a section, unsorted.
func (c *catalogue) add(n int, definitions []jsontext.Value, f filter) {
	s := &sections[c.kind][n]
	for i, raw := range definitions {
		t, q := s.examine(raw)
		if secret := c.kind != Tools && f.scrub.scrub(string(raw)) != string(raw); secret {
			q = &events.Quarantine{Reason: "the " + s.noun + " holds a secret of the server's definition"}
		}
		switch {
		case q != nil:
			if q.Name == "" {
				q.Name = "#" + strconv.Itoa(i+1)
			}
			c.quarantine(*q)
		case f.allowed == nil || f.allowed(t.name):
			t.section = n
			c.items = append(c.items, t)
		}
	}
}

func (c *catalogue) quarantine(q events.Quarantine) {
	if c.quarantined.Count++; c.quarantined.Count <= events.MaxNames {
		q.Name, q.Reason = clean(q.Name, maxShown), clean(q.Reason, maxReason)
		c.quarantined.Items = append(c.quarantined.Items, q)
	}
}

// blob returns the definitions as one JSON array, each as it was sent; those of
// several sections as an object of arrays.
func (c *catalogue) blob() []byte {
	size := 64
	for i := range c.items {
		size += len(c.items[i].raw) + 1
	}
	b := make([]byte, 0, size)
	parts := sections[c.kind]
	if len(parts) == 1 {
		return c.appendArray(b, 0)
	}
	b = append(b, '{')
	for n := range parts {
		if n > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), parts[n].stored...), `":`...)
		b = c.appendArray(b, n)
	}
	return append(b, '}')
}

// appendArray appends the definitions of a section.
func (c *catalogue) appendArray(b []byte, section int) []byte {
	b = append(b, '[')
	first := true
	for i := range c.items {
		if c.items[i].section != section {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, c.items[i].raw...)
	}
	return append(b, ']')
}

// catalogueOf reads a blob that an earlier list was stored as.
func catalogueOf(kind ListKind, blob []byte) (*catalogue, error) {
	definitions, err := splitBlob(kind, blob)
	if err != nil {
		return nil, errors.Wrapf(err, "read list of %s", kind)
	}
	c := newCatalogue(kind, definitions, filter{})
	if q := c.quarantined.Items; len(q) > 0 {
		return nil, errors.Newf("read list of %s: %s: %s", kind, q[0].Name, q[0].Reason)
	}
	return c, nil
}

func splitBlob(kind ListKind, blob []byte) (definitions [][]jsontext.Value, err error) {
	definitions = make([][]jsontext.Value, len(sections[kind]))
	if len(definitions) == 1 {
		return definitions, json.Unmarshal(blob, &definitions[0])
	}
	var stored map[string][]jsontext.Value
	if err := json.Unmarshal(blob, &stored); err != nil {
		return nil, err
	}
	for n, s := range sections[kind] {
		definitions[n] = stored[s.stored]
	}
	return definitions, nil
}

// listing returns how the list differs from an earlier one, whose digest is
// from; without one, all items are added.
func (c *catalogue) listing(blob []byte, earlier *catalogue, from events.Digest) events.Listing {
	l := events.Listing{Digest: events.DigestOf(blob), Count: len(c.items), Quarantined: c.quarantined}
	if earlier == nil {
		earlier = &catalogue{}
	} else {
		l.From = from
	}
	old, now := earlier.items, c.items
	for len(old) > 0 || len(now) > 0 {
		switch {
		case len(old) == 0 || len(now) > 0 && now[0].compare(&old[0]) < 0:
			addName(&l.Added, now[0].name)
			now = now[1:]
		case len(now) == 0 || old[0].compare(&now[0]) < 0:
			addName(&l.Removed, old[0].name)
			old = old[1:]
		default:
			if old[0].digest != now[0].digest {
				addChange(&l.Changed, events.Change{Name: shown(now[0].name), From: old[0].digest, To: now[0].digest})
			}
			old, now = old[1:], now[1:]
		}
	}
	return l
}

func addName(n *events.Names, name string) {
	if n.Count++; n.Count <= events.MaxNames {
		n.Names = append(n.Names, shown(name))
	}
}

func addChange(c *events.Changes, x events.Change) {
	if c.Count++; c.Count <= events.MaxNames {
		c.Items = append(c.Items, x)
	}
}

// shown returns a name as events hold it.
func shown(name string) string {
	if len(name) <= maxShown {
		return name
	}
	return clean(name, maxShown)
}

// changed says whether a list differs from the one it was compared with.
func changed(l *events.Listing, earlier *catalogue) bool {
	return earlier == nil || l.Added.Count > 0 || l.Removed.Count > 0 || l.Changed.Count > 0 ||
		l.Quarantined.Count != earlier.quarantined.Count ||
		!slices.Equal(l.Quarantined.Items, earlier.quarantined.Items)
}
