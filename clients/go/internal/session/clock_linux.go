package session

import (
	"time"

	"golang.org/x/sys/unix"
)

// asleep is the difference between the clock that runs on while a machine sleeps and the one that
// stands still.
func asleep() time.Duration {
	return read(unix.CLOCK_BOOTTIME) - read(unix.CLOCK_MONOTONIC)
}

func read(clock int32) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(clock, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
