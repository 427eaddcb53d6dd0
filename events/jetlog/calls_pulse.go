package jetlog

import (
	"time"

	"github.com/toolfleet/toolfleet/events/callwire"
)

// pulse says when one side of a call has to speak and when it has waited enough
// for the other.
type pulse struct {
	spoke, heard time.Time
}

func (p *pulse) begin(now time.Time) { p.spoke, p.heard = now, now }

// due says whether it is time for a keep-alive.
func (p *pulse) due(now time.Time) bool { return now.Sub(p.spoke) >= callwire.KeepAliveEvery }

// silent says whether the other side was not heard of for too long.
func (p *pulse) silent(now time.Time) bool { return now.Sub(p.heard) >= callwire.SilenceLimit }

// next returns how long until one of both may be so.
func (p *pulse) next(now time.Time) time.Duration {
	return min(p.spoke.Add(callwire.KeepAliveEvery).Sub(now), p.heard.Add(callwire.SilenceLimit).Sub(now))
}
