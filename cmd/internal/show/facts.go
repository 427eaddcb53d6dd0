package show

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections/story"
)

// facts returns what people want to know of an event besides its kind, joined by
// commas. Who asked for it, and why, comes last.
func facts(r *events.Record) string {
	var f facting
	f.body(r)
	if r.Actor != "" && r.Actor != planner {
		f.add("by " + r.Actor)
	}
	f.quoted("", r.Reason)
	return strings.Join(f, ", ")
}

// planner is the actor of what a controller decides by itself, which goes
// without saying.
const planner = "system:plan"

type facting []string

func (f *facting) add(text string) {
	if text != "" {
		*f = append(*f, text)
	}
}

// quoted adds words of somebody else, if there are some.
func (f *facting) quoted(label, text string) {
	if text != "" {
		f.add(strings.TrimSpace(label + " " + strconv.Quote(text)))
	}
}

func (f *facting) body(r *events.Record) {
	switch b := r.Body.(type) {
	case events.Declared:
		f.definition(&b.Definition)
	case events.Updated:
		f.add("changed: " + strings.Join(story.ChangedMembers(&b.From, &b.To), " "))
	case events.UpdateRolledBack:
		f.failure(b.Failure)
	case events.Rejected:
		f.add(b.ID)
		for _, p := range b.Reasons[:min(len(b.Reasons), 3)] {
			f.add(p.Message)
		}
	case events.MoveRequested:
		f.add("to " + string(b.Worker))
	case events.Undecodable:
		f.add(b.Reason)
	case events.Unknown:
		f.add(string(r.Data))
	default:
		f.instance(r)
	}
}

// instance adds the facts of what is written on an instance's chain.
func (f *facting) instance(r *events.Record) {
	switch b := r.Body.(type) {
	case events.Assigned:
		f.add(fmt.Sprintf("to %s, epoch %d", b.Worker, b.Epoch))
		f.add(b.Reason)
	case events.Connecting:
		f.add(fmt.Sprintf("attempt %d, definition %s", b.Attempt, short(b.Definition)))
	case events.Connected:
		f.add("protocol " + b.Protocol)
		f.number("pid", b.PID)
		f.add(b.URL)
	case events.ToolsListed:
		f.listing(&b.Listing, "tool")
	case events.ResourcesListed:
		f.listing(&b.Listing, "resource")
	case events.PromptsListed:
		f.listing(&b.Listing, "prompt")
	case events.Degraded:
		f.failure(b.Failure)
	case events.Failed:
		f.failed(&b)
	default:
		f.instanceEnd(r)
	}
}

// instanceEnd adds those of what ends a connection, or follows its end.
func (f *facting) instanceEnd(r *events.Record) {
	switch b := r.Body.(type) {
	case events.RestartScheduled:
		f.add(fmt.Sprintf("attempt %d in %v", b.Attempt, b.Delay()))
	case events.Restarted:
		f.add(fmt.Sprintf("attempt %d, down for %v", b.Attempt, millis(b.DowntimeMs)))
	case events.AuthRequired:
		f.add(b.Hint)
	case events.Parked:
		f.failure(b.Failure)
		if b.ProbeMs > 0 {
			f.add("tried again in " + millis(b.ProbeMs).String())
		}
	case events.Stopping:
		f.add(b.Reason)
	case events.HasStopped:
		f.add(b.How)
	case events.Released:
		f.add(b.Reason)
	case events.Lost:
		f.add("worker " + string(b.Worker))
	default:
		f.host(r)
	}
}

// host adds those of what is written on the chains of workers and the fleet.
func (f *facting) host(r *events.Record) {
	switch b := r.Body.(type) {
	case events.Joined:
		f.add("host " + b.Host)
		f.add(pairs(b.Labels))
		f.add("toolfleet " + b.Versions["toolfleet"])
	case events.Left:
		f.add(b.Reason)
	case events.Draining:
		if b.Incarnation != "" {
			f.add("it is about to leave")
		}
	case events.SourceFailed:
		f.add(b.Source.Path)
		f.add(b.Error)
	case events.Discovered:
		f.add(b.Source.Path)
		f.add(fmt.Sprintf("%s accepted, %d rejected", Count(len(b.Accepted), "server"), b.Rejected))
	case events.LedBy:
		f.add("controller " + b.Controller)
	default: // the kind says it all
	}
}

func (f *facting) number(label string, n int) {
	if n != 0 {
		f.add(label + " " + strconv.Itoa(n))
	}
}

func (f *facting) failure(x events.Failure) {
	f.add(strings.TrimSuffix(string(x.Code)+": "+x.Message, ": "))
}

func (f *facting) failed(b *events.Failed) {
	f.failure(b.Failure)
	f.number("attempt", b.Attempt)
	if b.Exit != nil {
		f.add("exit " + strconv.Itoa(*b.Exit))
	}
	if b.Signal != "" {
		f.add("signal " + b.Signal)
	}
	lines := strings.Split(strings.TrimSpace(b.StderrTail), "\n")
	f.quoted("stderr", lines[len(lines)-1])
}

func (f *facting) definition(d *events.Definition) {
	f.add(cut(strings.Join(append([]string{d.Command}, d.Args...), " "), definitionWidth))
	f.add(d.URL)
	if d.Disabled {
		f.add("disabled")
	}
}

// definitionWidth is how much of a command line is shown.
const definitionWidth = 100

func (f *facting) listing(l *events.Listing, what string) {
	f.add(Count(l.Count, what))
	if l.From != "" {
		f.named("added", l.Added)
	}
	f.named("removed", l.Removed)
	f.number("changed", l.Changed.Count)
	f.number("left out", l.Quarantined.Count)
	f.add("digest " + short(l.Digest))
}

// named adds the names of a few, and how many they are.
func (f *facting) named(label string, n events.Names) {
	const shown = 3
	switch {
	case n.Count == 0:
	case n.Count > len(n.Names) || n.Count > shown:
		f.number(label, n.Count)
	default:
		f.add(label + " " + strings.Join(n.Names, " "))
	}
}

// short returns the beginning of a digest, which tells it from others.
func short(d events.Digest) string {
	return string(d[:min(len(d), 8)])
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Count returns a number with its noun.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// pairs returns labels as key=value, sorted.
func pairs(labels map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, k+"="+labels[k])
	}
	return strings.Join(all, " ")
}
