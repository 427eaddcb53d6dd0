//go:build unix && !linux

package worker

// onlyZombies says whether all that is left of a process group is waiting to be
// reaped. Here orphans are reaped at once by the system.
func onlyZombies(int) bool { return false }
