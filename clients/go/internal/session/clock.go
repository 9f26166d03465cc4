package session

import (
	"sync/atomic"
	"time"

	"github.com/holdoff/holdoff/clients/go/internal/rules"
)

const (
	// suspendedMin: below this the clocks merely were not read at the same time.
	suspendedMin = 100 * time.Millisecond
	driftMax     = 50 * time.Millisecond
)

// Clock is monotonic, and counts the time that the machine was suspended, which Go's own monotonic
// clock does not. Whether it was is looked at only where the wall clock has moved against the
// monotonic one, since that costs a system call; a stepped wall clock alone changes nothing.
type Clock struct {
	origin time.Time
	// asleep is how long the machine has slept since it booted.
	asleep    func() time.Duration
	mark      time.Duration
	drift     atomic.Int64
	suspended atomic.Int64
}

// NewClock begins now.
func NewClock() *Clock { return newClock(asleep) }

func newClock(asleep func() time.Duration) *Clock {
	return &Clock{origin: time.Now(), asleep: asleep, mark: asleep()}
}

// At is a time of [time.Now] as the rules count it.
func (c *Clock) At(now time.Time) rules.Time {
	awake := now.Sub(c.origin)
	wall := now.Round(0).Sub(c.origin.Round(0))
	drift := wall - awake
	if moved := drift - time.Duration(c.drift.Load()); moved > driftMax || moved < -driftMax {
		c.drift.Store(int64(drift))
		if slept := c.asleep() - c.mark; slept >= suspendedMin {
			c.suspended.Store(int64(slept))
		}
	}
	return rules.Time(rules.NanosOf(awake + time.Duration(c.suspended.Load())))
}

// Now as the rules count it.
func (c *Clock) Now() rules.Time { return c.At(time.Now()) }

// Suspended is how long the machine has slept since the clock began.
func (c *Clock) Suspended() time.Duration {
	c.Now()
	return time.Duration(c.suspended.Load())
}
