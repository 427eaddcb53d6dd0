package projections

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/toolfleet/toolfleet/events"
)

// The generators draw from few ids, digests and numbers, so that what they make
// meets.

var (
	someChain = rapid.SampledFrom([]events.Chain{
		events.ServerChain("a"), events.ServerChain("b"),
		events.InstanceChain("a", "0"), events.InstanceChain("a", "0"), events.InstanceChain("a", "1"),
		events.WorkerChain("w"), events.WorkerChain("v"),
		events.FleetChain(),
	})
	someWorker = rapid.SampledFrom([]events.WorkerID{"w", "v"})
	someLife   = rapid.SampledFrom([]events.Incarnation{"i", "j"})
	someDigest = rapid.SampledFrom([]events.Digest{"d1", "d2", "d3", "d4", "d5", "d6"})
	someCode   = rapid.SampledFrom([]events.Code{events.Exited, events.StopHung, events.HTTPStatus(502)})
	someText   = rapid.SampledFrom([]string{"", "plain", "übel", "\xff\xfe not UTF-8"})
	few        = rapid.IntRange(0, 3)
)

// kindsOn are the kinds that may be written on each kind of chain.
var kindsOn = func() map[events.ChainKind][]events.Kind {
	on := make(map[events.ChainKind][]events.Kind)
	for _, c := range []events.ChainKind{events.OfServer, events.OfInstance, events.OfWorker, events.OfFleet} {
		for _, k := range events.Kinds() {
			if k.BelongsOn(c) {
				on[c] = append(on[c], k)
			}
		}
	}
	return on
}()

func someDefinition(t *rapid.T) events.Definition {
	d := events.Definition{
		Command:  rapid.SampledFrom([]string{"one", "two"}).Draw(t, "command"),
		Disabled: rapid.Bool().Draw(t, "disabled"),
		Want:     rapid.SampledFrom([]events.Want{"", events.Running, events.Stopped}).Draw(t, "want"),
	}
	if rapid.Bool().Draw(t, "placed") {
		d.Placement = &events.Placement{Worker: someWorker.Draw(t, "worker")}
	}
	return d
}

func someFailure(t *rapid.T) events.Failure {
	return events.NewFailure(someCode.Draw(t, "code"), events.PhaseRun, "it broke")
}

func someSource(t *rapid.T) events.Source {
	return events.Source{Provider: "file", Path: rapid.SampledFrom([]string{"/a", "/b", "/c"}).Draw(t, "path")}
}

func someListing(t *rapid.T) events.Listing {
	l := events.Listing{Digest: someDigest.Draw(t, "digest"), Count: few.Draw(t, "count")}
	if n := few.Draw(t, "quarantined"); n > 0 {
		l.Quarantined.Count = n
		for range n {
			l.Quarantined.Items = append(l.Quarantined.Items, events.Quarantine{Name: "bad", Reason: "it is"})
		}
	}
	return l
}

// someBody returns a body of that kind.
func someBody(t *rapid.T, k events.Kind) events.Body {
	switch k {
	case events.KindDeclared:
		return events.Declared{Definition: someDefinition(t)}
	case events.KindUpdated:
		return events.Updated{From: someDefinition(t), To: someDefinition(t)}
	case events.KindUpdateRolledBack:
		return events.UpdateRolledBack{Failure: someFailure(t)}
	case events.KindRejected:
		return events.Rejected{ID: "my.id", Reasons: []events.Problem{{Code: events.InvalidID, Message: "no"}}}
	case events.KindMoveRequested:
		return events.MoveRequested{Worker: someWorker.Draw(t, "worker")}
	case events.KindAssigned:
		return events.Assigned{
			Worker: someWorker.Draw(t, "worker"), Incarnation: someLife.Draw(t, "incarnation"),
			Epoch: events.Epoch(few.Draw(t, "new epoch") + 1),
		}
	case events.KindConnecting:
		return events.Connecting{Attempt: few.Draw(t, "attempt"), Generation: 1, Definition: someDigest.Draw(t, "definition")}
	case events.KindConnected:
		return events.Connected{Protocol: "2025-11-25", Era: "handshake", ServerInfo: jsontext.Value(`{"name":"x"}`), PID: 7}
	case events.KindToolsListed:
		return events.ToolsListed{Listing: someListing(t)}
	case events.KindResourcesListed:
		return events.ResourcesListed{Listing: someListing(t)}
	case events.KindPromptsListed:
		return events.PromptsListed{Listing: someListing(t)}
	case events.KindDegraded:
		return events.Degraded{Failure: someFailure(t)}
	case events.KindFailed:
		exit := few.Draw(t, "exit")
		return events.Failed{Failure: someFailure(t), Attempt: few.Draw(t, "attempt"), Exit: &exit, StderrTail: "the end"}
	case events.KindRestartScheduled:
		return events.RestartScheduled{DelayMs: 500, Attempt: few.Draw(t, "attempt")}
	case events.KindParked:
		return events.Parked{Failure: someFailure(t), ProbeMs: int64(few.Draw(t, "probe")) * 1000}
	default:
		return otherBody(t, k)
	}
}

// otherBody has the kinds that need little.
func otherBody(t *rapid.T, k events.Kind) events.Body {
	simple := map[events.Kind]events.Body{
		events.KindUpdateSettled: events.UpdateSettled{}, events.KindEnabled: events.Enabled{},
		events.KindDisabled: events.Disabled{}, events.KindWithdrawn: events.Withdrawn{},
		events.KindRestartRequested: events.RestartRequested{}, events.KindStartRequested: events.StartRequested{},
		events.KindStopRequested: events.StopRequested{}, events.KindRecovered: events.Recovered{},
		events.KindRestarted:    events.Restarted{Attempt: 1, DowntimeMs: 100},
		events.KindAuthRequired: events.AuthRequired{Hint: "log in"}, events.KindStopping: events.Stopping{},
		events.KindStopped: events.HasStopped{How: "closed"}, events.KindReleased: events.Released{},
		events.KindLost: events.Lost{Worker: "w"}, events.KindDraining: events.Draining{},
		events.KindCordoned: events.Cordoned{}, events.KindUncordoned: events.Uncordoned{},
		events.KindFrozen: events.Frozen{}, events.KindUnfrozen: events.Unfrozen{},
		events.KindLedBy: events.LedBy{Controller: "c", Incarnation: "i"},
	}
	switch k {
	case events.KindJoined:
		return events.Joined{Host: "h", Incarnation: someLife.Draw(t, "incarnation"), Labels: map[string]string{"zone": "x"}}
	case events.KindLeft:
		return events.Left{Incarnation: someLife.Draw(t, "incarnation")}
	case events.KindDiscovered:
		return events.Discovered{Source: someSource(t), Accepted: []events.ServerID{"a"}, Rejected: few.Draw(t, "rejected")}
	case events.KindSourceFailed:
		return events.SourceFailed{Source: someSource(t), Error: "unreadable"}
	}
	if b, ok := simple[k]; ok {
		return b
	}
	t.Fatalf("no generator for kind %s", k)
	return nil
}

// usually is what follows when nothing goes wrong; without it, few generated
// instances would become ready.
var usually = map[State]events.Kind{
	"": events.KindAssigned, Assigned: events.KindConnecting, Connecting: events.KindConnected,
	Listing: events.KindToolsListed, Failed: events.KindRestartScheduled, BackingOff: events.KindConnecting,
	Stopping: events.KindStopped, Stopped: events.KindReleased,
	Released: events.KindAssigned, Lost: events.KindAssigned,
}

// someRecord returns a record that comes next on some chain; now and then it is
// one that this build cannot read, or one that makes no sense there.
func someRecord(t *rapid.T, h *History) events.Record {
	seq, c := h.Seq()+1, someChain.Draw(t, "chain")
	r := events.Record{
		Seq: seq, Link: events.Link(fmt.Sprintf("link-%d", seq)),
		Event: events.Event{
			Chain: c, ID: events.EventID(fmt.Sprintf("id-%d", seq)),
			Time: dawn.Add(time.Duration(seq) * time.Second).In(time.FixedZone("", 3600)),
		},
	}
	sensible := false
	if c.Kind() == events.OfInstance {
		sensible = rapid.IntRange(0, 2).Draw(t, "sensible") > 0
		r.Epoch = events.Epoch(few.Draw(t, "epoch"))
		r.Attempt = few.Draw(t, "attempt")
	} else if rapid.Bool().Draw(t, "requested") {
		r.Correlation = events.RequestID(fmt.Sprintf("r%d%s", few.Draw(t, "request"), someText.Draw(t, "more")))
		r.Actor, r.Reason = someText.Draw(t, "actor"), someText.Draw(t, "reason")
	}
	readable := rapid.IntRange(0, 19).Draw(t, "readable")
	switch {
	case sensible:
		comesNext(t, &r, h.Instance(c.Server(), c.Instance()))
	case readable == 0:
		r.Body = events.Unknown{Type: "dev.toolfleet." + someText.Draw(t, "type") + ".v2"}
	case readable == 1:
		r.Body, r.Time = events.Undecodable{Reason: "no JSON"}, time.Time{}
	default:
		r.Body = someBody(t, rapid.SampledFrom(kindsOn[c.Kind()]).Draw(t, "kind"))
	}
	return r
}

// comesNext makes the record one that its writer could have written.
func comesNext(t *rapid.T, r *events.Record, i *Instance) {
	if i == nil {
		i = new(Instance)
	}
	k, ok := usually[i.State]
	if !ok {
		k = rapid.SampledFrom(kindsOn[events.OfInstance]).Draw(t, "kind")
	}
	r.Epoch, r.Attempt, r.Body = i.Epoch, i.Attempt, someBody(t, k)
	if a, ok := r.Body.(events.Assigned); ok {
		r.Epoch++
		a.Epoch = r.Epoch
		r.Body = a
	}
}

// someRecords returns a history from the first event on.
func someRecords(t *rapid.T) []events.Record {
	var h History
	records := make([]events.Record, rapid.IntRange(0, 100).Draw(t, "length"))
	for i := range records {
		records[i] = someRecord(t, &h)
		h.Apply(records[i])
	}
	return records
}
