package jetlog

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootClock reads mach_continuous_time, which clock_gettime(3) offers under this
// name. CLOCK_MONOTONIC is not it: it follows corrections of the wall clock.
func bootClock() time.Duration { return readClock(unix.CLOCK_MONOTONIC_RAW) }
