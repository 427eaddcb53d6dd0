// Package projections folds a fleet's history into the states that people,
// sessions and controllers ask for.
//
// It is pure: it reads no clock, no environment and no broker.
//
// # Folds
//
// Each kind of chain has one fold: [EvolveServer], [EvolveInstance],
// [EvolveWorker] and [EvolveFleet]. A fold takes a state and the chain's next
// event and returns the new state. It never fails, never blocks and never
// changes its argument: states may share memory with each other, and nothing
// that is reachable from a state is ever written to again. States are
// therefore safe to keep and to read from many goroutines; who changes one
// breaks them all.
//
// What holds for every fold:
//
//   - An event at or before the state's position changes nothing, so events
//     may be delivered twice.
//   - An event of another chain changes nothing.
//   - An event of a kind or version that this build does not know, or that
//     cannot be decoded, is counted ([Progress]) and changes nothing else.
//   - On an instance's chain, an event of an older epoch than the current
//     owner's moves the position and changes nothing else. So does, between
//     released or lost and the next assigned, everything but assigned: nobody
//     owns the instance then.
//   - A state reads no other chain: the order in which events of different
//     chains arrive is irrelevant.
//   - Times are those of the events.
//
// [History] is all folds of one fleet together. [Status] joins a server's
// definition with its instances.
//
// # Entries
//
// An [Entry] is a state as it is stored in a bucket:
//
//	{"log":…, "fold":…, "seq":…, "link":…, "digest":…, "value":…}
//
// log names the history, fold is the version of the folds ([Version]), seq and
// link are those of the last event folded, and digest is the SHA-256 of the
// value as canonical JSON (RFC 8785). Entries of one key are ordered by
// (log, fold, seq); a stored entry is only ever replaced by a higher one, except
// by a rebuild.
package projections

// Version is that of the folds: it rises when a fold gives another state for
// the same events, so that the states that older builds stored are folded
// anew, and are never written over newer ones.
const Version = 3
