package controller

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// Place returns the worker that an instance without an owner is placed on, out
// of those that may take it; false if there is none.
//
// Of the workers that hold the fewest instances of the server it is the one with
// the highest score, and the score is a hash of server, instance and worker
// (rendezvous hashing): it is the same wherever and whenever it is worked out,
// and a worker that comes or goes changes no choice but those it wins or held.
func Place(s events.ServerID, n events.InstanceID, workers []*projections.Worker, holds map[events.WorkerID]int) (events.WorkerID, bool) {
	if len(workers) == 0 {
		return "", false
	}
	best := slices.MinFunc(workers, func(a, b *projections.Worker) int {
		return cmp.Or(
			cmp.Compare(holds[a.ID], holds[b.ID]),
			cmp.Compare(score(s, n, b.ID), score(s, n, a.ID)),
			cmp.Compare(a.ID, b.ID),
		)
	})
	return best.ID, true
}

func score(s events.ServerID, n events.InstanceID, w events.WorkerID) uint64 {
	sum := sha256.Sum256([]byte(string(s) + "." + string(n) + "." + string(w)))
	return binary.BigEndian.Uint64(sum[:])
}

// suits says whether a definition allows the worker: it is the one that is
// named, has the labels that are asked for, and can read the definition's
// secrets.
func suits(d *events.Definition, w *projections.Worker) bool {
	if needsSecrets(d) && len(w.Recipients) == 0 {
		return false
	}
	p := d.Placement
	if p == nil {
		return true
	}
	if p.Worker != "" && p.Worker != w.ID {
		return false
	}
	for name, value := range p.Labels {
		if have, ok := w.Labels[name]; !ok || have != value {
			return false
		}
	}
	return true
}

// needsSecrets says whether a definition refers to secrets.
func needsSecrets(d *events.Definition) bool {
	refers := func(s string) bool { return strings.Contains(s, "${secret:") }
	for _, m := range []map[string]string{d.Env, d.Headers} {
		for _, v := range m {
			if refers(v) {
				return true
			}
		}
	}
	return refers(d.URL) || slices.ContainsFunc(d.Args, refers)
}
