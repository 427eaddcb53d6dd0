// Package keeper owns the child processes of a worker: it starts, signals and
// ends them, and sees to it that none outlives the worker or its lease.
//
// # The helper process
//
// [Keeper.Run] starts the running program once more, as a helper that is called
// toolfleet-keeper: whatever program has this package in it can be one, and then
// never comes to its main. It runs in a session of its own, so that a terminal's Ctrl-C does not reach it, and it
// starts every child, reaps it and reports its exit. Where the system has
// subreapers (Linux) it is one: a descendant that loses its parent becomes a
// child of the helper, whatever sessions and groups it made.
//
// The two share a socket, and the state folder's lock if there is one: that is
// free when both are gone. The child's ends of the pipes go to the helper with
// the request. Nothing but them is open in a child.
//
// # When children die
//
//	the socket closes (the worker stopped, or died)   every descendant is killed, then the helper exits
//	the lease ends                                    every descendant is killed; no child is started
//	                                                  before the lease is told anew
//	[Child.End]                                       every descendant of the child is killed
//	the helper dies, or does not answer for 2 s       the worker, a subreaper as well, kills every
//	                                                  descendant; another helper is started
//
// The lease's end is a time on the clock that counts suspend, and the helper
// looks at it by itself, so the children of a stopped (SIGSTOP) worker die too.
// The helper answers every message about the lease, and gets one each second
// at least. Killing freezes what it finds until nothing new is found, then
// kills, until none is left.
//
// That none is left is said when it is certain. A process that forks and ends
// while the system's list is read may be missing from it together with its child,
// so a list without descendants counts only if the helper reaped nobody meanwhile.
// [Sweep] and the worker, when a helper died, want several such lists in a row.
//
// # Whose descendant a process is
//
// Each child and all that it starts have the variable [Marker] in their
// environment:
//
//	TOOLFLEET_INSTANCE=<folder id>/<incarnation>/<server>/<instance>/<epoch>.<attempt>
//
// A process belongs to the child that is its ancestor, or was when the helper last
// looked, which it does while something has to end. One whose parent was gone by
// then belongs to the child that its marker names, or whose group it is in. One that
// has neither is ended when there is no child any more, and in all the cases
// above but End. [Sweep] finds what a worker and its helper left that were killed
// together, by the marker alone, among the processes of the same user.
//
// # What is not promised
//
// A process that the kernel cannot kill, because it waits for a device, is not
// waited for beyond some seconds; it runs no instruction any more.
//
// A program that wants to can hide a process under another child's marker, if its
// parent ends before the helper looks: it goes with that other child. One that
// replaces itself faster than the list is read is chased for as long as it does so,
// and no child is said to have ended meanwhile.
//
// [Sweep] lets go on what it stopped and does not find again: it executed another
// program, without the marker. Killing it could kill another worker's helper.
//
// Without subreapers (macOS) a descendant that cleared its environment and lost
// its parent is not found, and neither is one of another user.
//
// A program runs one Keeper at a time, and starts no other children in sessions
// of their own: they would be taken for descendants of a helper that died.
package keeper
