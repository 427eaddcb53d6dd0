package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/toolfleet/toolfleet/cmd/internal/show"
)

// leastVersion is the first version of NATS whose messages can have a time to
// live, which leases are made of.
const leastMajor, leastMinor = 2, 11

// NATS judges the server that answers.
func NATS(address, version string, took time.Duration) Check {
	c := Check{Name: "NATS", Verdict: OK, Message: fmt.Sprintf("%s, version %s, answers in %v", address, version, took.Round(time.Microsecond))}
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, errX := strconv.Atoi(major)
	y, errY := strconv.Atoi(minor)
	if errX == nil && errY == nil && (x < leastMajor || x == leastMajor && y < leastMinor) {
		c.Verdict, c.Message = Fail, fmt.Sprintf("%s: leases need NATS %d.%d", c.Message, leastMajor, leastMinor)
		c.WayOut = "update the NATS servers"
	}
	return c
}

// Stream is what there is to know of a stream.
type Stream struct {
	Name            string
	Replicas        int
	Bytes, MaxBytes uint64
	// Leader is the server that leads, "" if none does, where there is a cluster.
	Clustered bool
	Leader    string
	// Behind are replicas that are offline, or lack messages.
	Behind []string
	// Err is why nothing is known.
	Err error
}

// Replicas judges where the streams are stored.
func Replicas(streams []Stream) []Check {
	const name = "replicas"
	var checks []Check
	most, fewest := 0, 0
	for _, s := range streams {
		if s.Err != nil {
			continue
		}
		most = max(most, s.Replicas)
		if fewest == 0 || s.Replicas < fewest {
			fewest = s.Replicas
		}
		switch {
		case s.Clustered && s.Leader == "":
			checks = append(checks, Check{name, Fail, s.Name + " has no leader: nothing can be written to it", "see which servers of the cluster are down: nats server list"})
		case len(s.Behind) > 0:
			checks = append(checks, Check{name, Warn, fmt.Sprintf("%s: behind or offline: %s", s.Name, strings.Join(s.Behind, ", ")), "see those servers; they catch up by themselves"})
		case s.Clustered && s.Replicas == 1:
			checks = append(checks, Check{name, Warn, s.Name + " has one replica, in a cluster", "nats stream edit --replicas 3 " + s.Name})
		}
	}
	if len(checks) == 0 && most > 0 {
		c := Check{Name: name, Verdict: OK, Message: fmt.Sprintf("%s of each stream, all current", show.Count(most, "replica"))}
		if fewest != most {
			c.Verdict, c.Message = Warn, fmt.Sprintf("some streams have %d, others %d", fewest, most)
			c.WayOut = "give them all as many: nats stream edit --replicas"
		}
		return []Check{c}
	}
	return checks
}

// Limits judges how full the streams are, except the history's, which has a check
// of its own.
func Limits(streams []Stream, used, store uint64) []Check {
	const name = "limits"
	var checks []Check
	add := func(what string, used, limit uint64) {
		if limit == 0 {
			return
		}
		percent := int(used * 100 / limit)
		c := Check{name, Warn, fmt.Sprintf("%s: %d %% of %d MiB", what, percent, limit>>20), "raise that limit soon"}
		switch {
		case percent >= full:
			c.Verdict, c.WayOut = Fail, "raise that limit: what does not fit is refused"
		case percent < nearlyFull:
			return
		}
		checks = append(checks, c)
	}
	for _, s := range streams {
		if !strings.HasSuffix(s.Name, "-events") {
			add(s.Name, s.Bytes, s.MaxBytes)
		}
	}
	add("the account's storage", used, store)
	if len(checks) > 0 {
		return checks
	}
	message := fmt.Sprintf("%d MiB stored, below every limit", used>>20)
	return []Check{{Name: name, Verdict: OK, Message: message}}
}

// Permissions judges what could be read: of each stream, and what was refused.
func Permissions(streams []Stream, denied []string) Check {
	c := Check{Name: "permissions", Verdict: OK, Message: "all streams can be read"}
	var unread []string
	for _, s := range streams {
		if s.Err != nil {
			unread = append(unread, s.Name)
		}
	}
	if len(unread)+len(denied) == 0 {
		return c
	}
	c.Verdict, c.WayOut = Warn, "allow the NATS user what it is to do: go doc ./events/jetlog names the subjects"
	c.Message = "cannot be read: " + strings.Join(unread, ", ")
	if len(unread) == 0 {
		c.Message = "something was refused"
	}
	if len(denied) > 0 {
		c.Message += " (" + strings.Join(denied, "; ") + ")"
	}
	return c
}

// Sync says how often a server writes to disk what it has acknowledged.
type Sync struct {
	Always   bool
	Interval time.Duration // 0 if it is not known
}

// Durability judges what a crash of a host can lose. Known is the setting of a
// toolfleet up of this host, sync what the server itself said, if it may be asked.
func Durability(known string, sync *Sync, replicas int) Check {
	c := Check{Name: "durability", Verdict: OK}
	switch {
	case known == "always", sync != nil && sync.Always:
		c.Message = "always: what is acknowledged is on disk"
	case known != "":
		c.Message = known + ": a crash of the host can lose the last 200 ms; toolfleet up --durability always loses nothing"
	case replicas > 1:
		c.Message = fmt.Sprintf("%d replicas: what one loses, the others have", replicas)
		if sync != nil {
			c.Message += fmt.Sprintf("; a crash of all of them at once can lose the last %v", sync.Interval)
		}
	case sync != nil && sync.Interval <= time.Second:
		c.Message = fmt.Sprintf("one replica, written every %v: that is what a crash of the host can lose", sync.Interval)
	case sync != nil:
		c.Verdict, c.Message = Warn, fmt.Sprintf("one replica, written every %v: that is what a crash of the host can lose", sync.Interval)
		c.WayOut = "set sync_interval: always in the configuration of NATS"
	default:
		c.Verdict, c.Message = Warn, "one replica, and how often it writes to disk cannot be seen from here"
		c.WayOut = "set sync_interval: always in the configuration of NATS; its default of two minutes is what a crash of the host can lose"
	}
	return c
}

// hourglass are the differences of clocks that are told of: what is a moment for
// people, and what makes a history hard to read.
const (
	slightlyOff = 2 * time.Second
	farOff      = time.Minute
)

// Clock judges by how much a clock differs from that of the NATS server: that of
// this host, or of a worker's, whose times are in the history. Nothing is decided
// by either.
func Clock(whose string, off time.Duration) Check {
	c := Check{Name: "clocks", Verdict: OK, Message: fmt.Sprintf("%s differs from NATS by %v", whose, off.Abs().Round(time.Millisecond))}
	if off.Abs() < slightlyOff {
		return c
	}
	way := "behind"
	if off > 0 {
		way = "ahead of"
	}
	c.Verdict, c.Message = Warn, fmt.Sprintf("the clock of %s is %v %s that of NATS", whose, off.Abs().Round(time.Second), way)
	c.WayOut = "set it, and keep it set (NTP): leases do not go by it, but the times in the history do"
	if off.Abs() >= farOff {
		c.Message += ": times in the history are not to be believed"
	}
	return c
}
