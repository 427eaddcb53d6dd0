package session

import (
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// Past returns the tools that a session offers which was opened on views as they
// were: those of [kvview.Past], with their lists. Of the options Project, ID,
// Host, Scheme, Reserved and MaxTools count.
func Past(r *kvview.Reader, o *Options) []Tool {
	d := o.withDefaults()
	next, _ := new(catalogue).next(bygone{view{&feed{Reader: r}}}, newViewpoint(&d))
	return next.tools
}

// bygone is a fleet that does not change any more: a list that is not there is
// not fetched.
type bygone struct{ view }

func (b bygone) List(kind listKind, id events.ServerID, n events.InstanceID) listing {
	return b.stored(kind, id, n)
}
