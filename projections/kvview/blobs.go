package kvview

import (
	"context"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
)

// listOf returns an entry with a list of an instance.
func (p *projector) listOf(ctx context.Context, kind keyKind, i *projections.Instance) pending {
	c := kind.catalogue(i)
	k := key{kind: kind, id: string(i.Server), instance: i.Instance}
	return newPending(p, k, events.Tip{Seq: c.Changed}, func() (List, error) {
		l := newList(k, c)
		if c.Digest == "" {
			return l, nil
		}
		data, err := p.blobs.get(ctx, c.Digest)
		if err != nil {
			// The list can still be found by its digest, should it come.
			p.o.Logger.Error("a list cannot be read", "kind", string(kind), "server", string(i.Server), "instance", string(i.Instance), "err", err)
			return l, ctx.Err()
		}
		if limit := min(InlineLimit, int(p.log.Conn().MaxPayload())-entryRoom); len(data) <= limit {
			l.fill(kind, data)
		}
		return l, nil
	})
}

// entryRoom is what an entry needs beside its list, with headers.
const entryRoom = 8 << 10

// blobsKept is how many lists are remembered: the instances of one server often
// have the same, and change at the same time.
const blobsKept = 16

// blobCache reads lists from the blob store. What could not be read is not asked
// for again: it costs seconds each time.
type blobCache struct {
	log    *jetlog.Log
	recent []blob
	failed map[events.Digest]error
}

type blob struct {
	digest events.Digest
	data   []byte
}

func newBlobCache(log *jetlog.Log) *blobCache {
	return &blobCache{log: log, failed: make(map[events.Digest]error)}
}

func (c *blobCache) get(ctx context.Context, d events.Digest) (jsontext.Value, error) {
	for _, b := range c.recent {
		if b.digest == d {
			return b.data, nil
		}
	}
	if err := c.failed[d]; err != nil {
		return nil, err
	}
	data, err := c.read(ctx, d)
	if err != nil {
		if ctx.Err() == nil {
			c.failed[d] = err
		}
		return nil, err
	}
	if len(c.recent) == blobsKept {
		c.recent = append(c.recent[:0:0], c.recent[1:]...)
	}
	c.recent = append(c.recent, blob{d, data})
	return data, nil
}

// read waits out what passes; a blob that is not there, or no JSON, is an error.
func (c *blobCache) read(ctx context.Context, d events.Digest) ([]byte, error) {
	for {
		data, err := c.log.GetBlob(ctx, d)
		switch {
		case err == nil:
			if _, err := events.CanonicalDigest(data); err != nil {
				return nil, errors.Wrapf(err, "list %s", d)
			}
			return data, nil
		case errors.Is(err, jetlog.ErrBlobNotFound), isLasting(err):
			return nil, err
		}
		if err := pause(ctx, retryPause); err != nil {
			return nil, err
		}
	}
}
