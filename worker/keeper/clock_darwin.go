package keeper

import "golang.org/x/sys/unix"

// leaseClock counts the time that the host slept: it is mach_continuous_time.
const leaseClock = unix.CLOCK_MONOTONIC_RAW
