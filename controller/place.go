package controller

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
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

// choose is [Place], for an instance that had rather be placed on a certain
// worker, and says why it is that one. It returns "" if there is none.
func choose(
	s events.ServerID, n events.InstanceID, fit []*projections.Worker, holds map[events.WorkerID]int, rather events.WorkerID,
) (id events.WorkerID, why string) {
	id, ok := Place(s, n, fit, holds)
	if !ok {
		return "", ""
	}
	if slices.ContainsFunc(fit, func(w *projections.Worker) bool { return w.ID == rather }) {
		return rather, "as asked"
	}
	least := 0
	for _, w := range fit {
		if holds[w.ID] == holds[id] {
			least++
		}
	}
	switch all := strconv.Itoa(len(fit)); {
	case len(fit) == 1:
		return id, "the only one that fits"
	case least == 1:
		return id, "fewest of " + all + " that fit"
	default:
		return id, "by hash, of " + strconv.Itoa(least) + " with the fewest of " + all + " that fit"
	}
}

func score(s events.ServerID, n events.InstanceID, w events.WorkerID) uint64 {
	sum := sha256.Sum256([]byte(string(s) + "." + string(n) + "." + string(w)))
	return binary.BigEndian.Uint64(sum[:])
}

// suits says whether a definition allows the worker: it is the one that is
// named, has the labels that are asked for, and can read the definition's
// secrets.
func suits(d *events.Definition, w *projections.Worker) bool { return unsuitable(d, w) == "" }

// unsuitable says what the worker is or lacks that the definition does not allow,
// in a few words, or "".
func unsuitable(d *events.Definition, w *projections.Worker) string {
	if needsSecrets(d) && len(w.Recipients) == 0 {
		return "without the fleet's identity for secrets"
	}
	p := d.Placement
	if p == nil {
		return ""
	}
	if p.Worker != "" && p.Worker != w.ID {
		return "not " + string(p.Worker)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
		if have, ok := w.Labels[name]; !ok || have != p.Labels[name] {
			return "without label " + name + "=" + p.Labels[name]
		}
	}
	return ""
}

// refuses says why a worker takes nothing new at all, or "".
func refuses(w *projections.Worker, load int) string {
	switch {
	case w.State == "":
		return "not joined so far"
	case !w.Present():
		return string(w.State)
	case w.Draining:
		return "draining"
	case w.Cordoned:
		return "cordoned"
	case w.Capacity > 0 && load >= w.Capacity:
		return "full"
	default:
		return ""
	}
}

// nobody says in words why none of the workers may take an instance: how many
// there are of each reason.
func nobody(reasons []string) string {
	if len(reasons) == 0 {
		return "no worker has joined"
	}
	counts := make(map[string]int)
	for _, r := range reasons {
		counts[r]++
	}
	var all []string
	for _, r := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, strconv.Itoa(counts[r])+" "+r)
	}
	return "no worker may take it: " + strings.Join(all, ", ")
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
