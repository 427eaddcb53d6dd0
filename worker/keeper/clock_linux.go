package keeper

import "golang.org/x/sys/unix"

// leaseClock counts the time that the host slept.
const leaseClock = unix.CLOCK_BOOTTIME
