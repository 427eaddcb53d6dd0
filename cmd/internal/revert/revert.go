// Package revert finds the definition that a server goes back to.
package revert

import (
	"bytes"
	"regexp"
	"slices"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
)

// Target is what a server goes back to.
type Target struct {
	Definition *events.Definition
	// Seq is the event since which the server had that definition.
	Seq events.Seq
	// Same says that the server has it now, so that nothing is to be done.
	Same bool

	// failed says that the update to it was rolled back.
	failed bool
}

// Find returns the definition that a server had at a position, or, if that is 0,
// before its definition was last changed; what an
// update failed to replace it by does not count. Records are all events of the server's
// chain. That it had none is an error.
func Find(id events.ServerID, records []events.Record, at events.Seq) (*Target, error) {
	var (
		s projections.Server
		// had are the definitions that the server had, one after the other; nil
		// while it had none.
		had []Target
	)
	for i := range records {
		s = projections.EvolveServer(s, records[i])
		if records[i].Kind() == events.KindUpdateRolledBack && len(had) > 0 {
			had[len(had)-1].failed = true
		}
		if n := len(had); n == 0 || !same(had[n-1].Definition, s.Definition) {
			had = append(had, Target{Definition: s.Definition, Seq: records[i].Seq})
		}
	}
	if len(had) == 0 || !slices.ContainsFunc(had, func(t Target) bool { return t.Definition != nil }) {
		return nil, exit.With(exit.NotFound, errors.Newf("the fleet never had a server %q", id))
	}
	now := had[len(had)-1]
	if at == 0 {
		return before(id, had)
	}
	var then *Target
	for i := range had {
		if had[i].Seq <= at {
			then = &had[i]
		}
	}
	if then == nil || then.Definition == nil {
		return nil, exit.With(exit.NotFound, errors.Newf("the fleet had no server %s at event %d", id, at))
	}
	then.Same = same(then.Definition, now.Definition)
	return then, nil
}

// before returns the last definition that worked, or might have, and is another one
// than the server's own.
func before(id events.ServerID, had []Target) (*Target, error) {
	now := had[len(had)-1]
	for i := len(had) - 2; i >= 0; i-- {
		if had[i].Definition != nil && !had[i].failed && !same(had[i].Definition, now.Definition) {
			return &had[i], nil
		}
	}
	return nil, errors.WithHintf(errors.Newf("server %s never had another definition", id),
		"toolfleet events %s shows what became of it", id)
}

// same says whether definitions say the same in every member.
func same(a, b *events.Definition) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, errX := json.Marshal(a, json.Deterministic(true))
	y, errY := json.Marshal(b, json.Deterministic(true))
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

var reference = regexp.MustCompile(`\$\{secret:[^{}"]*\}`)

// Secrets returns the references to secrets in a definition, each once.
func Secrets(d *events.Definition) ([]jetlog.SecretRef, error) {
	data, err := json.Marshal(d, json.Deterministic(true))
	if err != nil {
		return nil, errors.Wrap(err, "read the definition")
	}
	var refs []jetlog.SecretRef
	for _, text := range reference.FindAllString(string(data), -1) {
		r, err := jetlog.ParseSecretRef(text)
		if err != nil {
			return nil, errors.Wrap(err, "read the definition")
		}
		if !slices.Contains(refs, r) {
			refs = append(refs, r)
		}
	}
	return refs, nil
}

// Missing returns those of the references whose values are not stored any more.
func Missing(refs, stored []jetlog.SecretRef) (missing []jetlog.SecretRef) {
	for _, r := range refs {
		if !slices.Contains(stored, r) {
			missing = append(missing, r)
		}
	}
	return missing
}
