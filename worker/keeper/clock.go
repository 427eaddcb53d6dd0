package keeper

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootClock is the clock of leases, see [Keeper.Renewed].
func bootClock() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(leaseClock, &ts); err != nil {
		panic("keeper: boot-time clock: " + err.Error()) // unreachable unless the kernel is older than Go supports
	}
	return time.Duration(ts.Nano())
}
