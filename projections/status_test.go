package projections

import (
	"slices"
	"testing"

	"github.com/toolfleet/toolfleet/events"
)

// R25
func TestReach(t *testing.T) {
	tests := map[Reach][]State{
		IsConnected:  {Ready, Degraded},
		IsConnecting: {Assigned, Connecting, Listing, BackingOff, Deferred},
		IsDisconnected: {
			Parked, Failed, AuthRequired, Stopping, Stopped, Disabled,
			Withdrawn, Rejected, Released, Lost, "",
		},
	}
	for want, states := range tests {
		for _, s := range states {
			if got := s.Reach(); got != want {
				t.Errorf("%q is %s, want %s", s, got, want)
			}
		}
	}
}

func TestStatusJoins(t *testing.T) {
	declared := func(d events.Definition, enabled bool) *Server {
		return &Server{ID: "a", Definition: &d, Digest: "d1", Enabled: enabled, Want: wanted(&d), Progress: Progress{Tip: events.Tip{Seq: 5}}}
	}
	running, stopped := declared(events.Definition{Command: "x"}, true), declared(events.Definition{Want: events.Stopped}, true)
	fault := &Fault{Failure: events.NewFailure(events.Exited, events.PhaseRun, "")}
	instance := func(id events.InstanceID, s State, tools ToolsState, f *Fault) *Instance {
		i := &Instance{
			Server: "a", Instance: id, State: s, Worker: "w-" + events.WorkerID(id), Epoch: 3, Restarts: 2, Failure: f,
			Tools:    Catalogue{State: tools, Listed: Listed{Definition: "d1", Digest: "t", Count: 4}},
			Progress: Progress{Tip: events.Tip{Seq: 9}},
		}
		if s.Working() {
			i.Connection = &Connection{PID: 7, Protocol: "2025-11-25"}
		}
		return i
	}
	withdrawn := &Server{ID: "a", Withdrawn: true}
	tests := map[string]struct {
		server    *Server
		instances []*Instance
		state     State
		tools     ToolsState
		worker    events.WorkerID
		failure   *Fault
	}{
		"nothing placed yet":       {running, nil, Deferred, "", "", nil},
		"the best speaks":          {running, []*Instance{instance("0", BackingOff, ToolsStale, fault), instance("1", Ready, ToolsLive, nil)}, Ready, ToolsLive, "w-1", fault},
		"the best's failure":       {running, []*Instance{instance("0", Parked, "", fault), instance("1", BackingOff, ToolsStale, fault)}, BackingOff, ToolsStale, "w-1", fault},
		"between two owners":       {running, []*Instance{instance("0", Released, "", nil)}, Deferred, ToolsDeferred, "", nil},
		"its worker is lost":       {running, []*Instance{instance("0", Lost, ToolsStale, nil)}, Deferred, ToolsStale, "", nil},
		"parked tools are gone":    {running, []*Instance{instance("0", Parked, "", fault)}, Parked, "", "w-0", fault},
		"stopped":                  {stopped, []*Instance{instance("0", Stopped, "", nil)}, Stopped, "", "w-0", nil},
		"stopping":                 {stopped, []*Instance{instance("0", Stopping, ToolsStale, nil)}, Stopping, "", "w-0", nil},
		"still ready, not wanted":  {stopped, []*Instance{instance("0", Ready, ToolsLive, nil)}, Ready, ToolsLive, "w-0", nil},
		"disabled":                 {declared(events.Definition{}, false), nil, Disabled, "", "", nil},
		"withdrawn":                {withdrawn, []*Instance{instance("0", Released, "", nil)}, Withdrawn, "", "", nil},
		"withdrawn, still closing": {withdrawn, []*Instance{instance("0", Stopping, ToolsStale, nil)}, Stopping, "", "w-0", nil},
		"rejected":                 {&Server{ID: "a", Rejection: &Rejection{ID: "a"}}, nil, Rejected, "", "", nil},
		"instances only":           {&Server{ID: "a"}, []*Instance{instance("0", Lost, "", nil)}, Withdrawn, "", "", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := NewStatus(tt.server, slices.Values(tt.instances))
			if got.State != tt.state || got.Status != tt.state.Reach() || got.ToolsState != tt.tools || got.Worker != tt.worker || got.Failure != tt.failure {
				t.Errorf("state %s (%s), tools %q, worker %q, failure %v", got.State, got.Status, got.ToolsState, got.Worker, got.Failure)
			}
			if (got.Tools > 0) != (tt.tools != "") {
				t.Errorf("%d tools are %q", got.Tools, tt.tools)
			}
			if got.Restarts != 2*len(tt.instances) || len(got.Instances) != len(tt.instances) {
				t.Errorf("%d restarts of %d instances", got.Restarts, len(got.Instances))
			}
			if len(tt.instances) > 0 && got.Seq != 9 {
				t.Errorf("as of %d, want the newest event of all", got.Seq)
			}
		})
	}
}

// R17: tools that are kept for one definition are not offered for another.
func TestOfferNeedsTheSameDefinition(t *testing.T) {
	s := &Server{Definition: &events.Definition{}, Digest: "d2", Enabled: true, Want: events.Running}
	for _, state := range []State{Released, Stopped, Assigned, BackingOff} {
		i := &Instance{State: state, Tools: Catalogue{Listed: Listed{Definition: "d1", Digest: "t", Count: 1}}}
		i.appraise()
		if got := s.Offer(i); got != "" {
			t.Errorf("%s: tools of another definition are %s", state, got)
		}
		i.Tools.Definition = "d2"
		if got := s.Offer(i); got == "" {
			t.Errorf("%s: tools of the same definition are withdrawn", state)
		}
	}
}
