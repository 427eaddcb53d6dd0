package session

import (
	"cmp"
	"hash/fnv"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// chooser says which instance of a server a session uses: one that works, and
// of several the one it used before, else one on its own host, else the one
// that a hash of the session's id gives. Sessions so spread over instances, and
// stay where they are while that one works.
type chooser struct {
	session string
	host    events.WorkerID
}

// choose returns an instance, or nil if none has anything to offer.
func (c *chooser) choose(s *projections.Server, instances []*projections.Instance, used events.InstanceID) *projections.Instance {
	var (
		best  *projections.Instance
		worth standing
	)
	for _, i := range instances {
		w := c.stand(s, i, used)
		if w.offer+w.hope > 0 && (best == nil || w.compare(worth) > 0) {
			best, worth = i, w
		}
	}
	return best
}

// standing orders the instances of a server; more is better.
type standing struct {
	offer int // of tools
	hope  int // of resources or prompts
	used  bool
	near  bool
	hash  uint64
}

func (a standing) compare(b standing) int {
	return cmp.Or(cmp.Compare(a.offer, b.offer), cmp.Compare(a.hope, b.hope), compareBool(a.used, b.used), compareBool(a.near, b.near),
		cmp.Compare(a.hash, b.hash))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

func (c *chooser) stand(s *projections.Server, i *projections.Instance, used events.InstanceID) standing {
	h := fnv.New64a()
	for _, part := range []string{c.session, string(i.Server), string(i.Instance)} {
		_, _ = h.Write([]byte(part)) // never fails
		_, _ = h.Write([]byte{0})
	}
	return standing{
		offer: worthOf(s.Offer(i)), hash: h.Sum64(),
		hope: max(worthOf(s.Worth(i, &i.Resources)), worthOf(s.Worth(i, &i.Prompts))),
		used: i.Instance == used && used != "", near: i.Worker == c.host && c.host != "",
	}
}

func worthOf(s projections.ToolsState) int {
	switch s {
	case projections.ToolsLive:
		return 3
	case projections.ToolsDeferred:
		return 2
	case projections.ToolsStale:
		return 1
	default:
		return 0
	}
}
