package jetlog

import (
	"time"

	"golang.org/x/sys/unix"
)

// BootClock returns the time since some fixed moment before the process began,
// counting the time that the host slept. Leases are measured with it, because
// Go's own monotonic clock stands still while a host sleeps, and the wall clock
// can be set. It is the default of [Options.Clock].
//
// It is CLOCK_BOOTTIME on Linux and mach_continuous_time on macOS.
func BootClock() time.Duration { return bootClock() }

func readClock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic("jetlog: boot-time clock: " + err.Error()) // unreachable unless the kernel is older than Go supports
	}
	return time.Duration(ts.Nano())
}
