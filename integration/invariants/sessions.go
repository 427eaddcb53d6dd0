package invariants

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
)

// Sessions is invariant 7: each session, which sees the whole fleet, offers the
// tools that the history says the fleet's servers have, as they were listed. It
// waits, within the context's limit, until each has seen the whole history, and
// is about a quiet fleet. Of a server's instances those count that offer most, and
// all of these offer the same.
func Sessions(ctx context.Context, log *jetlog.Log, sessions map[string]*session.Session) error {
	all, err := history(ctx, log)
	if err != nil {
		return err
	}
	var h projections.History
	for _, r := range all {
		h.Apply(r)
	}
	want := make(map[string]string) // definition and state, by server and name
	for s := range h.Servers() {
		if i := best(&h, s); i != nil {
			if err := offered(ctx, log, s, i, want); err != nil {
				return err
			}
		}
	}
	var wrong []string
	for name, s := range sessions {
		if err := s.Wait(ctx, h.Seq()); err != nil {
			return err
		}
		wrong = append(wrong, differences(name, s, want)...)
	}
	return complain("7, a quiet session has the tools of the history", wrong)
}

// best returns the instance whose tools are worth most, or nil if there is none.
func best(h *projections.History, s *projections.Server) (best *projections.Instance) {
	worth := map[projections.ToolsState]int{projections.ToolsLive: 3, projections.ToolsDeferred: 2, projections.ToolsStale: 1}
	for i := range h.InstancesOf(s.ID) {
		if best == nil || worth[s.Offer(i)] > worth[s.Offer(best)] {
			best = i
		}
	}
	return best
}

// offered adds the tools of an instance, if it offers any.
func offered(ctx context.Context, log *jetlog.Log, s *projections.Server, i *projections.Instance, to map[string]string) error {
	state := s.Offer(i)
	if state == "" || i.Tools.Digest == "" {
		return nil
	}
	data, err := log.GetBlob(ctx, i.Tools.Digest)
	if err != nil {
		return err
	}
	var tools []jsontext.Value
	if err := json.Unmarshal(data, &tools); err != nil {
		return err
	}
	for _, t := range tools {
		var x struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal(t, &x); err != nil {
			return err
		}
		to[toolKey(s.ID, x.Name)] = string(state) + " " + string(t)
	}
	return nil
}

func toolKey(s events.ServerID, tool string) string { return string(s) + " " + tool }

func differences(name string, s *session.Session, want map[string]string) (wrong []string) {
	tools, _ := s.Tools()
	has := make(map[string]bool)
	for i := range tools {
		t := &tools[i]
		key := toolKey(t.Server, t.Tool)
		has[key] = true
		if got := string(t.State) + " " + string(t.Definition); got != want[key] {
			wrong = append(wrong, fmt.Sprintf("session %s: %s is %q, want %q", name, key, got, want[key]))
		}
	}
	for key := range want {
		if !has[key] {
			wrong = append(wrong, fmt.Sprintf("session %s lacks %s", name, key))
		}
	}
	return wrong
}
