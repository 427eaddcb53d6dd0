// Package invariants checks what must hold of a fleet whatever happens to it:
// the named checks that whole-fleet tests end with.
//
//	1  no acknowledged event is lost                        [Ledger.Check]
//	2  never two live connections of one instance           [Guard], [Record.Check]
//	3  each view entry is the fold of its events            [Views]
//	4  every accepted request ends in an event              [Requests]
//	5  no process is left                                   [Processes]
//	7  a quiet session has the tools of the history         [Sessions]
//	8  a view never goes back                               [Watch]
//	9  a call has one outcome, and ok means executed once   [Calls.Check]
//
// Each returns an error that says everything that is wrong, or nil. 3, 4 and 7
// are about a fleet that is quiet; the others hold at any moment.
//
// A [Line] stands between a process and its NATS server. It notes what the
// process was told is stored, and springs a [Trap] at a certain message, which is
// how a process is killed at an exact place without a hook in it.
package invariants
