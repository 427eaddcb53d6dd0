package story

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// words says what an event tells.
func (t *teller) words(r *events.Record) string {
	id := string(r.Chain.Server())
	switch b := r.Body.(type) {
	case events.Declared:
		return id + " was declared"
	case events.Updated:
		return id + " was changed: " + strings.Join(ChangedMembers(&b.From, &b.To), ", ")
	case events.UpdateRolledBack:
		return "the former definition came back, because the new one failed: " + b.Failure.Error()
	case events.Rejected:
		return "a definition of " + b.ID + " was refused: " + problems(b.Reasons)
	case events.MoveRequested:
		return id + " was asked to move to worker " + string(b.Worker)
	default:
		if said, ok := requested[r.Kind()]; ok {
			return id + " " + said
		}
		return t.instanceWords(r)
	}
}

// requested are the words for what was asked of a server and has no details.
var requested = map[events.Kind]string{
	events.KindEnabled: "was enabled", events.KindDisabled: "was disabled", events.KindWithdrawn: "was removed from the fleet",
	events.KindRestartRequested: "was asked to restart", events.KindStartRequested: "was asked to start",
	events.KindStopRequested: "was asked to stop", events.KindUpdateSettled: "works with its new definition",
}

func (t *teller) instanceWords(r *events.Record) string {
	id := nameOf(r.Chain)
	switch b := r.Body.(type) {
	case events.Assigned:
		return fmt.Sprintf("%s was given to worker %s%s", id, b.Worker, because(b.Reason))
	case events.Connecting:
		return fmt.Sprintf("%s was being connected, attempt %d", id, b.Attempt)
	case events.Connected:
		return id + " was connected" + because(pid(b.PID))
	case events.ToolsListed:
		return t.listWords(r, &b.Listing)
	case events.Degraded:
		return id + " did not work fully: " + b.Failure.Error()
	case events.Failed:
		return t.failureWords(r, &b)
	case events.RestartScheduled:
		return fmt.Sprintf("%s was to be tried again in %v, as attempt %d", id, b.Delay(), b.Attempt)
	case events.Restarted:
		return fmt.Sprintf("%s was back after %v", id, time.Duration(b.DowntimeMs)*time.Millisecond)
	case events.AuthRequired:
		return id + " wanted credentials" + because(b.Hint)
	case events.Parked:
		return id + " was parked: it is not tried again soon"
	case events.Stopping:
		return id + " was being stopped" + because(b.Reason)
	case events.HasStopped:
		return id + " stopped" + because(b.How)
	case events.Released:
		return id + " was taken from its worker" + because(b.Reason)
	case events.Lost:
		if r.Chain.Kind() == events.OfWorker {
			return "worker " + string(b.Worker) + " was lost: it ended, or was cut off, without a word"
		}
		return id + " was lost with worker " + string(b.Worker)
	default:
		return hostWords(r)
	}
}

func hostWords(r *events.Record) string {
	id := "worker " + string(r.Chain.Worker())
	switch b := r.Body.(type) {
	case events.Joined:
		return id + " joined, on host " + b.Host
	case events.Left:
		return id + " left" + because(b.Reason)
	case events.Draining:
		return id + " was to be emptied"
	case events.Cordoned:
		return id + " was to get nothing new"
	case events.Uncordoned:
		return id + " was open again"
	case events.Frozen:
		return "the fleet was frozen: nothing is restarted, moved or updated by itself"
	case events.Unfrozen:
		return "the fleet was unfrozen"
	case events.LedBy:
		return "controller " + b.Controller + " took the lead"
	default:
		return string(r.Kind()) + " on " + r.Chain.String()
	}
}

// nameOf is what an instance is called: by its server alone, if it is the first.
func nameOf(c events.Chain) string {
	if c.Instance() == "0" {
		return string(c.Server())
	}
	return string(c.Server()) + "." + string(c.Instance())
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

func pid(n int) string {
	if n == 0 {
		return ""
	}
	return "process " + strconv.Itoa(n)
}

// failureWords says what failed, how it ended, and the how-manieth in a row it was.
func (t *teller) failureWords(r *events.Record, b *events.Failed) string {
	var all []string
	all = append(all, b.Failure.Error())
	if b.Exit != nil {
		all = append(all, "exit status "+strconv.Itoa(*b.Exit))
	}
	if b.Signal != "" {
		all = append(all, "signal "+b.Signal)
	}
	lines := strings.Split(strings.TrimSpace(b.StderrTail), "\n")
	if last := lines[len(lines)-1]; last != "" {
		all = append(all, "its last words: "+strconv.Quote(last))
	}
	text := nameOf(r.Chain) + " failed: " + strings.Join(all, ", ")
	row, since := 1, r
	for f := t.failureBefore(r); f != nil && f.Kind() == r.Kind() && b.Failure.Code != events.StopHung; f = t.failureBefore(f) {
		row, since = row+1, f
	}
	if row > 1 {
		text += fmt.Sprintf("; the last of %d failures in a row since %s", row, clock(since.Time))
	}
	return text
}

func (t *teller) listWords(r *events.Record, l *events.Listing) string {
	text := fmt.Sprintf("%s listed %s", nameOf(r.Chain), count(l.Count, "tool"))
	var changes []string
	if l.From != "" && l.Added.Count > 0 {
		changes = append(changes, "added "+named(l.Added))
	}
	if l.Removed.Count > 0 {
		changes = append(changes, "removed "+named(l.Removed))
	}
	if l.Changed.Count > 0 {
		changes = append(changes, strconv.Itoa(l.Changed.Count)+" changed")
	}
	if l.Quarantined.Count > 0 {
		changes = append(changes, strconv.Itoa(l.Quarantined.Count)+" left out")
	}
	if len(changes) > 0 {
		text += ": " + strings.Join(changes, ", ")
	}
	return text
}

// few is how many names are told.
const few = 5

func named(n events.Names) string {
	if n.Count > few || len(n.Names) < n.Count {
		return strconv.Itoa(n.Count)
	}
	return strings.Join(n.Names, ", ")
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

func problems(all []events.Problem) string {
	texts := make([]string, 0, few)
	for _, p := range all[:min(len(all), few)] {
		texts = append(texts, p.Message)
	}
	return cmp.Or(strings.Join(texts, "; "), "no reason is known")
}

// clock is a time for people. It is in UTC, as the history has it: a story is the
// same for everyone.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// ChangedMembers returns the names of the members in which definitions differ,
// sorted.
func ChangedMembers(from, to *events.Definition) []string {
	a, b := membersOf(from), membersOf(to)
	for name, value := range b {
		if string(a[name]) == string(value) {
			delete(a, name)
		} else {
			a[name] = value
		}
	}
	return slices.Sorted(maps.Keys(a))
}

func membersOf(d *events.Definition) map[string]jsontext.Value {
	members := make(map[string]jsontext.Value)
	if data, err := json.Marshal(d, json.Deterministic(true)); err == nil {
		_ = json.Unmarshal(data, &members) // it is an object
	}
	return members
}

// faultWords says what a failure is, and help what helps against it.
func faultWords(f *projections.Fault) string {
	if f == nil {
		return "why is not known"
	}
	return f.Error()
}

func help(f *projections.Fault) string {
	if f == nil {
		return ""
	}
	e, _ := events.Explain(f.Code)
	return e.WayOut
}
