// Package rules holds what a client decides by itself, as pure functions and plain state: time and
// random draws are arguments, nothing here reads a clock, takes a lock or logs. The vectors in
// tests/vectors say what must come out, in every language.
//
// It leaves out what only a fleet has: a calendar, a ramp, shares of callers, evidence of
// instances.
package rules

import (
	"math"
	"math/bits"
	"time"
)

// Nanos is a span of 0 to 584 years. Sums saturate at the longest, differences at zero.
type Nanos uint64

// Time is an instant, in nanoseconds since an origin that the clock's owner chose. Only differences
// mean anything.
type Time uint64

// The spans that the rules are written in.
const (
	Millisecond Nanos = 1e6
	Second      Nanos = 1e9
	Forever     Nanos = math.MaxUint64
)

// NanosOf takes a negative span for none.
func NanosOf(d time.Duration) Nanos { return Nanos(max(d, 0)) }

// Duration saturates at the 292 years that a time.Duration holds.
func (n Nanos) Duration() time.Duration { return time.Duration(min(n, math.MaxInt64)) }

// Add saturates.
func (n Nanos) Add(other Nanos) Nanos {
	sum, carry := bits.Add64(uint64(n), uint64(other), 0)
	if carry != 0 {
		return Forever
	}
	return Nanos(sum)
}

// Sub is zero where the other is longer.
func (n Nanos) Sub(other Nanos) Nanos { return n - min(n, other) }

// Mul saturates.
func (n Nanos) Mul(factor uint64) Nanos {
	high, low := bits.Mul64(uint64(n), factor)
	if high != 0 {
		return Forever
	}
	return Nanos(low)
}

// Part is the share unit of this span, rounded down; unit is taken as within 0 to 1.
func (n Nanos) Part(unit float64) Nanos {
	return truncated(float64(n) * min(max(unit, 0), 1))
}

// Add saturates: the far future stays the far future.
func (t Time) Add(span Nanos) Time { return Time(Nanos(t).Add(span)) }

// Since is the span from earlier to this instant; zero where the clock went backwards.
func (t Time) Since(earlier Time) Nanos { return Nanos(t).Sub(Nanos(earlier)) }

// Until is the span from this instant to later; zero where that has passed.
func (t Time) Until(later Time) Nanos { return later.Since(t) }

// truncated makes a time of a double: no number and negatives are 0, 2^64 and above is the longest.
func truncated(value float64) Nanos {
	switch {
	case !(value > 0):
		return 0
	case value >= 1<<64:
		return Forever
	default:
		return Nanos(value)
	}
}
