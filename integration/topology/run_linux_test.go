//go:build topology

package topology

import (
	"testing"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

var (
	// lasting servers are called and not changed, changing ones are both.
	lasting  = []events.ServerID{"last-0", "last-1", "last-2", "last-3"}
	changing = []events.ServerID{"change-0", "change-1"}
)

// away is how long a part is gone: long enough to be missed, not to be replaced.
const away = 2 * time.Second

// TestRun kills every kind of part, one after the other, while tools are called
// and servers changed, and starts each again. Whatever was asked for is done,
// once, and nothing that was acknowledged is lost.
func TestRun(t *testing.T) {
	sideBySide(t)
	r := newRig(t)
	r.declare(lasting...)
	stop := r.load(append(lasting, changing...), changing)
	history := jetlog.StreamName(r.fleet, "events")
	for _, step := range []struct {
		name string
		part func() *part
		stop func(*part)
	}{
		{"a worker", func() *part { return r.parts["worker-1"] }, (*part).kill},
		{"the controller that leads", func() *part { p, _ := r.leader(); return p }, (*part).kill},
		{"the other controller", func() *part { _, p := r.leader(); return p }, (*part).kill},
		{"a node of the bus", func() *part { _, p := r.node(history); return p }, (*part).kill},
		{"the node that leads the history", func() *part { p, _ := r.node(history); return p }, (*part).kill},
		{"a worker, in peace", func() *part { return r.parts["worker-2"] }, (*part).stop},
	} {
		began := time.Now()
		p := step.part()
		step.stop(p)
		time.Sleep(away)
		p.start()
		r.healthy(p)
		r.works(lasting...)
		r.replicated()
		t.Logf("%s (%s): all is well again after %v", step.name, p.service.Name, time.Since(began).Round(time.Millisecond))
	}
	stop()
	r.settled()
	r.ended()
}
