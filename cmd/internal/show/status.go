package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// Status is a fleet on one screen, and the JSON shape of that.
type Status struct {
	Fleet   events.FleetID `json:"fleet"`
	Address string         `json:"address"`
	// Seq is how far the views are; Behind says that nobody keeps them current.
	Seq    events.Seq `json:"seq"`
	Behind bool       `json:"behind"`
	// Ready says that every server that should run works.
	Ready bool `json:"ready"`
	// Leader is the controller that led last.
	Leader string `json:"leader"`
	// Frozen says that nothing is started, moved or updated by itself; Freeze says
	// since when and why, or is null.
	Frozen  bool                `json:"frozen"`
	Freeze  *projections.Freeze `json:"freeze"`
	Servers []any               `json:"servers"`
	Workers []Worker            `json:"workers"`

	asOf    string
	notes   []string
	servers []projections.Status
}

// ReadStatus returns the status of a fleet.
func ReadStatus(r *kvview.Reader, fleet events.FleetID, address string, now time.Time) *Status {
	at := r.AsOf()
	s := &Status{
		Fleet: fleet, Address: address, Seq: at.Seq, Behind: at.Behind(now), Ready: true,
		Servers: []any{}, Workers: ReadWorkers(r), asOf: at.Text(now), notes: Notes(r), servers: ReadServers(r),
	}
	if f := r.Fleet(); f != nil {
		s.Frozen, s.Freeze = f.Value.Frozen != nil, f.Value.Frozen
		if l := f.Value.Leader; l != nil {
			s.Leader = l.Controller
		}
	}
	for i := range s.servers {
		n := &s.servers[i]
		s.Ready = s.Ready && (n.Want != events.Running || n.State.Working())
		s.Servers = append(s.Servers, Servers.Object(n))
	}
	return s
}

// Write writes the status.
func (s *Status) Write(w io.Writer, f *Format) error {
	if f.Data() {
		return f.Write(w, s)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "fleet %s on %s, %s\n", s.Fleet, s.Address, s.asOf)
	if s.Leader != "" {
		fmt.Fprintf(&b, "led by controller %s\n", s.Leader)
	}
	for _, n := range s.notes {
		b.WriteString(n + "\n")
	}
	b.WriteString(s.workers() + "\n" + s.counts() + "\n")
	if _, err := io.WriteString(Terminal(w), b.String()); err != nil {
		return errors.Wrap(err, "write the output")
	}
	if len(s.servers) == 0 {
		return nil
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return errors.Wrap(err, "write the output")
	}
	return Servers.Write(w, f, s.servers)
}

func (s *Status) workers() string {
	var present, lost []string
	for i := range s.Workers {
		switch w := &s.Workers[i]; w.State {
		case projections.WorkerJoined:
			present = append(present, string(w.ID))
		case projections.WorkerLost:
			lost = append(lost, string(w.ID))
		default: // it left in order
		}
	}
	text := "no worker"
	if len(present) > 0 {
		text = Count(len(present), "worker") + ": " + strings.Join(present, ", ")
	}
	if len(lost) > 0 {
		text += "; lost: " + strings.Join(lost, ", ")
	}
	return text
}

// counts says how many servers are in which state, in the order in which the
// states come up.
func (s *Status) counts() string {
	if len(s.servers) == 0 {
		return Servers.None
	}
	var order []projections.State
	of := make(map[projections.State]int)
	for i := range s.servers {
		state := s.servers[i].State
		if of[state]++; of[state] == 1 {
			order = append(order, state)
		}
	}
	var all []string
	for _, state := range order {
		all = append(all, fmt.Sprintf("%d %s", of[state], state))
	}
	return Count(len(s.servers), "server") + ": " + strings.Join(all, ", ")
}
