package session

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Counting is what a client counts. Each is exact; together they are no snapshot.
type Counting struct {
	Asked, Answered, NoDecision            atomic.Uint64
	PushedGrants                           Spread
	PushedDenials                          atomic.Uint64
	LocalGrants, LocalDenials              atomic.Uint64
	Reported, ReportsDropped, Reconnection atomic.Uint64
}

// Spread is a counter whose callers do not wait for one another.
type Spread struct {
	cells [16]struct {
		count atomic.Uint64
		_     [56]byte
	}
}

// Add one.
func (s *Spread) Add() { s.cells[rand.Uint32()%16].count.Add(1) }

// Load sums up.
func (s *Spread) Load() (sum uint64) {
	for i := range s.cells {
		sum += s.cells[i].count.Load()
	}
	return sum
}

// seldom lets one warning a minute through.
type seldom struct{ last atomic.Int64 }

func (s *seldom) now() bool {
	now := time.Now().UnixNano()
	last := s.last.Load()
	return (last == 0 || now-last >= int64(time.Minute)) && s.last.CompareAndSwap(last, now)
}
