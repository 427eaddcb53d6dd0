package jetlog

import (
	"time"

	"golang.org/x/sys/unix"
)

func bootClock() time.Duration { return readClock(unix.CLOCK_BOOTTIME) }
