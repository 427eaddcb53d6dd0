package worker

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
)

// blobLimit bounds the reading of an earlier list; without it, all items count as
// added.
const blobLimit = 5 * time.Second

// earlier is a list that another is compared with.
type earlier struct {
	digest events.Digest
	items  *catalogue // nil if it has not been read
}

// toList asks for a list, to compare it with an earlier one. Again says that one
// of the same connection came before.
type toList struct {
	kind  ListKind
	from  earlier
	again bool
}

// listResult is a complete list, or why there is none.
type listResult struct {
	listed   Listed
	err      error
	exchange *exchange
}

// list makes a list. Without the tools a connection is of no use; resources and
// prompts that cannot be listed are none at first, and later stay what they were.
func (a *attempt) list(ctx context.Context, c *conn, q toList) listResult {
	x := &exchange{}
	definitions, err := a.sections(ctx, c, q.kind, x)
	switch {
	case err == nil:
	case q.kind == Tools, closed(c.over), errors.Is(ctx.Err(), context.Canceled):
		return listResult{listed: Listed{Kind: q.kind}, err: err, exchange: x}
	default:
		a.doubt(c, q.kind.String(), err)
		if q.again {
			return listResult{listed: Listed{Kind: q.kind, Same: true}}
		}
		definitions = make([][]jsontext.Value, len(sections[q.kind]))
	}
	items := newCatalogue(q.kind, definitions, filter{allowed: a.allowed(q.kind), scrub: c.scrub})
	if q.from.items == nil && q.from.digest != "" {
		q.from.items = a.host.readList(ctx, q.kind, q.from.digest)
	}
	blob := items.blob()
	l := items.listing(blob, q.from.items, q.from.digest)
	nothing := q.from.digest == "" && l.Count+l.Quarantined.Count == 0
	same := !changed(&l, q.from.items) || nothing && q.kind != Tools
	return listResult{listed: Listed{Kind: q.kind, Listing: l, Blob: blob, Same: same, items: items}}
}

// sections lists all sections of a list. What a server does not offer it is not
// asked for. A method that it offers and does not have lists nothing, and a server
// may list resources but no templates (R35, case N3).
func (a *attempt) sections(ctx context.Context, c *conn, k ListKind, x *exchange) ([][]jsontext.Value, error) {
	parts := sections[k]
	all := make([][]jsontext.Value, len(parts))
	if !c.hello.offers[k] {
		return all, nil
	}
	for n := range parts {
		of, asked := asks(ctx, string(parts[n].method), x)
		items, err := c.pages(of, &parts[n], x)
		asked(err)
		switch {
		case err == nil:
			all[n] = items
		case errors.Is(err, errNoSuchList), n > 0 && !closed(c.over) && !errors.Is(ctx.Err(), context.Canceled):
			a.doubt(c, parts[n].noun+"s", err)
		default:
			return nil, err
		}
	}
	return all, nil
}

// doubt logs what is no failure.
func (a *attempt) doubt(c *conn, items string, err error) {
	a.host.options.Logger.Warn("cannot be listed", "kind", items, "server", string(a.address.Server),
		"instance", string(a.address.Instance), "epoch", uint64(a.ref.Epoch), "err", c.scrub.text(err.Error(), maxMessage))
}

// allowed says which items of a list the definition offers; nil is all.
func (a *attempt) allowed(k ListKind) func(name string) bool {
	if k != Tools {
		return nil
	}
	return func(name string) bool { return offers(a.command.Definition, name) }
}

// readList returns a list that was stored before, or nil.
func (h *host) readList(ctx context.Context, k ListKind, d events.Digest) *catalogue {
	ctx, cancel := context.WithTimeout(ctx, blobLimit)
	defer cancel()
	blob, err := h.parts.Blobs.GetBlob(ctx, d)
	if err == nil {
		var c *catalogue
		if c, err = catalogueOf(k, blob); err == nil {
			return c
		}
	}
	h.options.Logger.Warn("last list not read: all count as added", "kind", k.String(), "err", err)
	return nil
}
