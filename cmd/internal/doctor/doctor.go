// Package doctor judges what was found out about a fleet: whether it is in order,
// and what helps where it is not.
package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// Verdict is how a check ended.
type Verdict string

// The verdicts. A warning is something that the operator may have chosen.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn"
	Fail Verdict = "fail"
)

// Check is one thing that was looked at.
type Check struct {
	Name    string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Message string  `json:"message"`
	// WayOut says what helps; empty where all is well.
	WayOut string `json:"wayOut"`
}

// Failed says whether one of the checks failed.
func Failed(checks []Check) bool {
	for _, c := range checks {
		if c.Verdict == Fail {
			return true
		}
	}
	return false
}

// Error is a check that failed with an error, whose hints are the way out.
func Error(name string, err error) Check {
	return Check{name, Fail, err.Error(), strings.Join(errors.GetAllHints(err), "; ")}
}

// Streams judges how the fleet's streams are set up.
func Streams(deviations []jetlog.Deviation, err error) []Check {
	const name = "streams"
	switch {
	case errors.Is(err, jetlog.ErrUnfit):
		return []Check{{name, Fail, err.Error(), "change that setting: nats stream edit; what correctness needs cannot be done without"}}
	case err != nil:
		return []Check{Error(name, err)}
	case len(deviations) == 0:
		return []Check{{Name: name, Verdict: OK, Message: "as they were made"}}
	}
	checks := make([]Check, 0, len(deviations))
	for _, d := range deviations {
		checks = append(checks, Check{name, Warn, d.String(), "nothing, if you chose it"})
	}
	return checks
}

// Shares of the history's limit, in percent, at which it is told of, and at which
// requests that add something are refused.
const (
	nearlyFull = 80
	full       = 95
)

// History judges how full the history is.
func History(h events.Head) Check {
	c := Check{Name: "history", Verdict: OK, Message: show.Count(int(h.Seq), "event")}
	if h.Count != uint64(h.Seq) {
		return Check{c.Name, Fail, fmt.Sprintf("%d of %d events are there: it is not whole", h.Count, h.Seq), "toolfleet explain history-incomplete"}
	}
	if h.MaxBytes == 0 {
		return c
	}
	percent := int(h.Bytes * 100 / h.MaxBytes)
	c.Message += fmt.Sprintf(", %d %% of %d MiB", percent, h.MaxBytes>>20)
	switch {
	case percent >= full:
		c.Verdict, c.WayOut = Fail, "raise the limit of the stream: nats stream edit --max-bytes"
	case percent >= nearlyFull:
		c.Verdict, c.WayOut = Warn, "raise the limit of the stream soon: nats stream edit --max-bytes"
	}
	return c
}

// Controllers judges how many controllers answered.
func Controllers(answered int) Check {
	c := Check{Name: "controllers", Verdict: OK, Message: show.Count(answered, "controller") + " answered"}
	if answered == 0 {
		c.Verdict, c.Message = Fail, "no controller answers: nothing can be changed, and nothing that is lost is replaced"
		c.WayOut = "start one: controller --server URL, or toolfleet up"
	}
	return c
}

// Workers judges which workers are there.
func Workers(workers []show.Worker) []Check {
	const name = "workers"
	var (
		present int
		checks  []Check
	)
	for _, w := range workers {
		switch w.State {
		case projections.WorkerJoined:
			present++
		case projections.WorkerLost:
			checks = append(checks, Check{
				name, Warn, fmt.Sprintf("%s was lost at %s", w.ID, w.Since.Local().Format(time.DateTime)),
				"start it again on its host, or leave it: what it ran is run elsewhere",
			})
		default: // it left in order
		}
	}
	first := Check{Name: name, Verdict: OK, Message: show.Count(present, "worker")}
	if present == 0 {
		first.Verdict, first.Message = Fail, "no worker is there: no server can run"
		first.WayOut = "start one: worker --server URL, or toolfleet up"
	}
	return append([]Check{first}, checks...)
}

// Views judges how far the views are behind the history.
func Views(at kvview.AsOf, head events.Seq, now time.Time) Check {
	c := Check{Name: "views", Verdict: OK, Message: at.Text(now)}
	switch {
	case at.Behind(now):
		c.Verdict, c.WayOut = Fail, "a controller writes them: see whether one runs"
	case at.Seq > head:
		c.Verdict, c.Message = Fail, fmt.Sprintf("%s, but the history ends at %d", c.Message, head)
		c.WayOut = "toolfleet explain history-regressed; toolfleet rebuild makes them anew"
	case head-at.Seq > farBehind:
		c.Verdict, c.Message = Warn, fmt.Sprintf("%s, of %d: they catch up", c.Message, head)
	}
	return c
}

// farBehind is how many events views lack that do not just arrive.
const farBehind = 1000

// Servers judges whether everything that should run is ready.
func Servers(servers []projections.Status) Check {
	wanted, missing := 0, []string(nil)
	for i := range servers {
		s := &servers[i]
		if s.Want != events.Running {
			continue
		}
		if wanted++; !s.State.Working() {
			missing = append(missing, fmt.Sprintf("%s is %s", s.ID, s.State))
		}
	}
	c := Check{Name: "servers", Verdict: OK, Message: fmt.Sprintf("%d of %d ready", wanted-len(missing), wanted)}
	if len(missing) > 0 {
		c.Verdict, c.Message = Warn, c.Message+": "+strings.Join(missing, ", ")
		c.WayOut = "toolfleet describe SERVER says why"
	}
	return c
}
