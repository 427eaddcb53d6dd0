//go:build !linux

package attach

// StartOf returns "": it is not known when a process started.
func StartOf(int) string { return "" }
