package kvview

import (
	"context"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// changed returns the entries of the chains that changed: lists first, so that no
// status tells of tools that are not there yet.
func (p *projector) changed(ctx context.Context) []pending {
	writes := make([]pending, 0, 2*len(p.dirty))
	for c := range p.dirty {
		if c.Kind() != events.OfInstance {
			continue
		}
		i := p.history.Instance(c.Server(), c.Instance())
		for _, kind := range listKinds {
			if kind.catalogue(i).Changed > 0 {
				writes = append(writes, p.listOf(ctx, kind, i))
			}
		}
	}
	for c := range p.dirty {
		writes = append(writes, p.stateOf(c))
	}
	return writes
}

// stateOf returns the entry of a chain.
func (p *projector) stateOf(c events.Chain) pending {
	k := keyOf(c)
	switch c.Kind() {
	case events.OfServer:
		return entryOf(p, k, p.history.Server(c.Server()))
	case events.OfInstance:
		return entryOf(p, k, p.history.Instance(c.Server(), c.Instance()))
	case events.OfWorker:
		return entryOf(p, k, p.history.Worker(c.Worker()))
	default:
		return entryOf(p, k, p.history.Fleet())
	}
}

func entryOf[S any, P interface {
	*S
	At() events.Tip
}](p *projector, k key, s P) pending {
	return newPending(p, k, s.At(), func() (S, error) { return *s, nil })
}

func newPending[S any](p *projector, k key, at events.Tip, value func() (S, error)) pending {
	o := projections.Order{Log: p.id, Fold: projections.Version, Seq: at.Seq}
	return pending{key: k, order: o, encode: func() ([]byte, error) {
		v, err := value()
		if err != nil {
			return nil, err
		}
		e := projections.Entry[S]{Log: o.Log, Fold: o.Fold, Seq: o.Seq, Link: at.Link, Value: v}
		return e.Encode()
	}}
}

// tombstones returns an empty entry for each that is stored of another history,
// or another version of the folds, and of which this one knows nothing.
func (p *projector) tombstones() (writes []pending) {
	for k, s := range p.bucket.stored {
		c := k.chain()
		if s.order.Log == "" || s.order.Compare(projections.Order{Log: p.id, Fold: projections.Version}) >= 0 {
			continue
		}
		if p.history.Tip(c).Seq > 0 &&
			(!k.kind.isList() || k.kind.catalogue(p.history.Instance(c.Server(), c.Instance())).Changed > 0) {
			continue
		}
		writes = append(writes, p.tombstone(k))
	}
	return writes
}

func (p *projector) tombstone(k key) pending {
	c := k.chain()
	switch k.kind {
	case serverKey:
		return entryOf(p, k, &projections.Server{ID: c.Server()})
	case statusKey:
		return entryOf(p, k, &projections.Instance{Server: c.Server(), Instance: c.Instance()})
	case toolsKey, resourcesKey, promptsKey:
		return newPending(p, k, events.Tip{}, func() (List, error) { return newList(k, &projections.Catalogue{}), nil })
	case workerKey:
		return entryOf(p, k, &projections.Worker{ID: c.Worker()})
	default:
		return entryOf(p, k, &projections.Fleet{})
	}
}
