// Package kvview keeps the views of a fleet in a key-value bucket: [Project]
// writes them, [Reader] reads and watches them.
//
// # Bucket
//
// The bucket is tf-<fleet>-views. Its keys are
//
//	server.<server>                a [projections.Server]
//	status.<server>.<instance>     a [projections.Instance]
//	tools.<server>.<instance>      a [List]
//	resources.<server>.<instance>  a [List], once the instance had any
//	prompts.<server>.<instance>    likewise
//	worker.<worker>                a [projections.Worker]
//	fleet                          the [projections.Fleet]
//	position                       how far all of them are ([Position])
//
// and all values but position are a [projections.Entry] in JSON.
//
// What always holds: each entry equals the fold of its chain's events up to its
// seq, and none of its events lies after that and up to position. An entry with a
// list has only those events that change which list it is; its seq is that of the
// last of them. An entry never goes back in the order of [projections.Order],
// except by [Rebuild]. What is gone has an entry that says so: keys are deleted
// by Rebuild alone.
//
// # Writing
//
// Any number of projectors may write at the same time, at any speed: what they
// write depends on the history alone, and each write states the revision that it
// replaces. One that finds a higher entry leaves it. Position is written last,
// when every entry is stored.
//
// A projector starts from what is stored: it takes up each state and follows
// the history after position, skipping the events that a state already has. It
// starts from the beginning instead when the stored views cannot be continued:
// they are of another history or of an older version of the folds, an entry is
// missing or damaged, or the history does not link to them. Views of a history
// that lost its end are of no worth; the same stream then goes on under the next
// [events.LogID].
//
// # Reading
//
// A reader needs no more of the bus than the bucket: it works while there is no
// controller and no projector, and tells how old its knowledge is ([AsOf]).
// Projectors renew position every [Heartbeat] when nothing happens.
package kvview
