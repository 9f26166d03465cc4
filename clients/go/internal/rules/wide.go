package rules

import (
	"math"
	"math/bits"
)

// wide is an unsigned number of 128 bits: products of two counts, before they are divided.
type wide struct{ high, low uint64 }

func product(a, b uint64) wide {
	high, low := bits.Mul64(a, b)
	return wide{high, low}
}

func (w wide) add(other wide) wide {
	low, carry := bits.Add64(w.low, other.low, 0)
	high, _ := bits.Add64(w.high, other.high, carry)
	return wide{high, low}
}

func (w wide) div(by uint64) wide {
	high, rest := w.high/by, w.high%by
	low, _ := bits.Div64(rest, w.low, by)
	return wide{high, low}
}

func (w wide) saturated() uint64 {
	if w.high != 0 {
		return math.MaxUint64
	}
	return w.low
}

// divCeil rounds up.
func divCeil(a, by uint64) uint64 {
	if a%by == 0 {
		return a / by
	}
	return a/by + 1
}
