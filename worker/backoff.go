package worker

import (
	"math"
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// ladder holds the delays of servers without a restart policy; after the last
// one they are parked.
var ladder = [...]time.Duration{0, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second}

const (
	// ladderStable is how long such a server must have been ready for the ladder
	// to begin anew. More restarts than the ladder has steps cannot fit into
	// that time, so a server that shakes hands and dies is parked as well.
	ladderStable = 30 * time.Second

	// A parked remote server that has worked before is probed.
	firstProbe = 15 * time.Second
	lastProbe  = 5 * time.Minute
)

// maxJitter is the largest share of a delay that chance adds to it.
const maxJitter = 0.2

// trouble is what a decision about a restart rests on.
type trouble struct {
	// Failures in a row, at least 1.
	Failures int
	// Probes made since it was parked.
	Probes int
	// Retry says whether trying again can help.
	Retry bool
	// Remote says that the server is no child of ours, Worked that it was
	// ready once.
	Remote, Worked bool
	// Rand in [0, 1).
	Rand float64
}

// verdict is a restart after Delay, or the probe of a parked server after
// Delay, where 0 is never.
type verdict struct {
	Restart bool
	Delay   time.Duration
}

func decide(p *events.RestartPolicy, t trouble) verdict {
	switch {
	case p != nil:
		return decideByPolicy(p.WithDefaults(), t)
	case t.Retry && t.Probes == 0 && t.Failures <= len(ladder):
		return verdict{Restart: true, Delay: ladder[t.Failures-1]}
	case t.Remote && t.Worked:
		return verdict{Delay: probeDelay(t.Probes)}
	default:
		return verdict{}
	}
}

func decideByPolicy(p events.RestartPolicy, t trouble) verdict {
	if !t.Retry || t.Failures > *p.MaxRestartAttempts {
		return verdict{}
	}
	longest := float64(*p.MaxDelayMs)
	d := min(float64(*p.InitialDelayMs)*math.Pow(*p.BackoffMultiplier, float64(t.Failures-1)), longest)
	d = min(d*(1+maxJitter*t.Rand), longest)
	return verdict{Restart: true, Delay: time.Duration(d * float64(time.Millisecond))}
}

func probeDelay(probes int) time.Duration {
	d := firstProbe
	for range probes {
		if d *= 2; d >= lastProbe {
			return lastProbe
		}
	}
	return d
}

// stablePeriod is how long an instance must have been ready for its failures to
// be forgotten.
func stablePeriod(p *events.RestartPolicy) time.Duration {
	if p == nil {
		return ladderStable
	}
	return time.Duration(*p.WithDefaults().StablePeriodMs) * time.Millisecond
}
