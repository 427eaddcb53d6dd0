package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// Lease is a key of the presence bucket.
type Lease struct {
	// Key is "leader", or "worker." or "controller." and an id.
	Key         string
	Incarnation events.Incarnation
	// Age is how long ago it was last renewed, by the server's clock.
	Age time.Duration
}

// late is how old a renewal may be that comes every four seconds.
const late = 10 * time.Second

// Leases judges who holds which lease. Workers are those that the views say are
// there.
func Leases(leases []Lease, workers []show.Worker, controllers int) []Check {
	const name = "leases"
	var held []string
	var checks []Check
	at := make(map[string]*Lease)
	for i := range leases {
		l := &leases[i]
		at[l.Key] = l
		held = append(held, fmt.Sprintf("%s %v ago", l.Key, l.Age.Round(time.Second)))
		if l.Age > late {
			checks = append(checks, Check{
				name, Warn, fmt.Sprintf("%s was last renewed %v ago: it ends 20 s after that", l.Key, l.Age.Round(time.Second)),
				"see that process and its connection to NATS",
			})
		}
	}
	if controllers > 0 && at["leader"] == nil {
		checks = append(checks, Check{name, Fail, "no controller leads: nothing is planned", "wait for the next to take it, 20 s at most; else see the log of a controller"})
	}
	for _, w := range workers {
		key := "worker." + string(w.ID)
		switch l := at[key]; {
		case w.State != projections.WorkerJoined:
		case l == nil:
			checks = append(checks, Check{
				name, Warn, fmt.Sprintf("worker %s is there by the history, but holds no lease", w.ID),
				"a controller will write it down as lost; if that lasts, see whether one leads",
			})
		case l.Incarnation != "" && l.Incarnation != w.Incarnation:
			checks = append(checks, Check{name, Warn, fmt.Sprintf("the lease of worker %s is that of another life of it", w.ID), "it is just starting; if that lasts, see its log"})
		}
	}
	if len(checks) == 0 {
		slices.Sort(held)
		return []Check{{Name: name, Verdict: OK, Message: "renewed: " + strings.Join(held, ", ")}}
	}
	return checks
}

// Identities judges which workers can read the fleet's secrets. Recipient is the
// key that they are encrypted to; "" if there are none.
func Identities(recipient string, workers []*projections.Worker) []Check {
	const name = "identity"
	if recipient == "" {
		return []Check{{Name: name, Verdict: OK, Message: "the fleet has no secrets so far"}}
	}
	var without []string
	able := 0
	for _, w := range workers {
		switch {
		case !w.Present():
		case slices.Contains(w.Recipients, recipient):
			able++
		default:
			without = append(without, string(w.ID))
		}
	}
	c := Check{Name: name, Verdict: OK, Message: show.Count(able, "worker") + " can read the fleet's secrets"}
	if len(without) > 0 {
		c.Verdict, c.Message = Warn, "servers with secrets cannot run on: "+strings.Join(without, ", ")
		c.WayOut = "copy the identity file of a worker that has the fleet's to those hosts, readable by their user alone"
	}
	return []Check{c}
}

// Blobs judges the lists of tools, resources and prompts in the store.
type Blobs struct {
	// Stored counts them; Orphans are those that no event refers to, with their
	// size.
	Stored, Orphans int
	OrphanBytes     uint64
	// Missing are lists that servers offer, by name, and that are not in the store.
	Missing []string
}

// Lists judges the store of lists.
func Lists(b *Blobs) Check {
	c := Check{Name: "lists", Verdict: OK, Message: show.Count(b.Stored, "list") + " of tools, resources or prompts stored"}
	switch {
	case len(b.Missing) > 0:
		c.Verdict, c.Message = Fail, "not in the store, so their tools cannot be offered: "+strings.Join(b.Missing, ", ")
		c.WayOut = "toolfleet restart lists them anew"
	case b.Orphans > 0:
		c.Message += fmt.Sprintf("; no event refers to %d of them (%d KiB), which does no harm", b.Orphans, b.OrphanBytes>>10)
	}
	return c
}
