package rules

import "math"

const (
	buckets = 10
	ring    = buckets + 1
)

// Budget counts first attempts and retries over a trailing window, and grants a retry while
//
//	retries <= (ratio * first attempts + floor * ttl)
//
// holds with it, in exact integers. Bucket k holds what came in [k * b, (k + 1) * b), b a tenth of
// the window. The oldest bucket lies partly outside of the window: its retries count and its first
// attempts do not, so that rounding goes against the grant. The zero value is empty.
type Budget struct {
	// length of a bucket; 0 before the first use.
	length uint64
	newest uint64
	ring   [ring]bucket
}

type bucket struct{ firstAttempts, retries uint32 }

// Level is what the window holds.
type Level struct {
	FirstAttempts, Retries uint64
	// Allowed are the retries that the window allows in all.
	Allowed uint64
}

// Deposit counts first attempts.
func (b *Budget) Deposit(p *Policy, count uint32, now Time) {
	b.turn(p, now)
	into := b.at(b.newest)
	into.firstAttempts = sum32(into.firstAttempts, count)
}

// Withdraw takes a token. Whether there is one says [Budget.Level].
func (b *Budget) Withdraw(p *Policy, now Time) {
	b.turn(p, now)
	from := b.at(b.newest)
	from.retries = sum32(from.retries, 1)
}

// Refund returns a token to the bucket it was taken in; nothing where that has left the window.
func (b *Budget) Refund(p *Policy, takenAt, now Time) {
	b.turn(p, now)
	index := uint64(takenAt) / b.length
	if index <= b.newest && b.newest-index < ring {
		into := b.at(index)
		into.retries -= min(into.retries, 1)
	}
}

// Level is what the window holds now.
func (b *Budget) Level(p *Policy, now Time) Level {
	b.turn(p, now)
	var level Level
	for age := uint64(0); age <= min(buckets, b.newest); age++ {
		held := b.at(b.newest - age)
		level.Retries += uint64(held.retries)
		if age < buckets {
			level.FirstAttempts += uint64(held.firstAttempts)
		}
	}
	share := product(uint64(p.BudgetRatio), level.FirstAttempts)
	level.Allowed = share.add(floorMicros(p, p.BudgetTTL)).div(1e6).saturated()
	return level
}

func floorMicros(p *Policy, span Nanos) wide {
	return product(p.BudgetFloorMicros, uint64(span)).div(1e9)
}

// turn forgets the buckets that have left the window. It costs a ring at most.
func (b *Budget) turn(p *Policy, now Time) {
	length := max(divCeil(uint64(p.BudgetTTL), buckets), 1)
	if length != b.length {
		b.changeLength(p, length, now)
	}
	newest := max(uint64(now)/b.length, b.newest)
	for age := range min(newest-b.newest, ring) {
		*b.at(newest - age) = bucket{}
	}
	b.newest = newest
}

// changeLength takes a new window over. What is known goes into the new buckets, rounded against the
// grant: retries as if they had been granted at the end of their old bucket, first attempts as if
// they had come at its begin. What a longer window adds to the floor counts as spent, since the
// retries before the old window are not known any more.
func (b *Budget) changeLength(p *Policy, length uint64, now Time) {
	old := *b
	*b = Budget{length: length, newest: uint64(now) / length}
	if old.length == 0 {
		return
	}
	for age := range min(ring, old.newest+1) {
		index := old.newest - age
		known := old.ring[index%ring]
		begin := min(uint64(Nanos(old.length).Mul(index)), uint64(now))
		end := min(uint64(Nanos(old.length).Mul(index+1)-1), uint64(now))
		if into := begin / length; b.newest-into < ring {
			b.at(into).firstAttempts = sum32(b.at(into).firstAttempts, known.firstAttempts)
		}
		if into := end / length; b.newest-into < ring {
			b.at(into).retries = sum32(b.at(into).retries, known.retries)
		}
	}
	longer := Nanos(length).Sub(Nanos(old.length)).Mul(buckets)
	unknown := floorMicros(p, longer).add(wide{low: 1e6 - 1}).div(1e6).saturated()
	newest := b.at(b.newest)
	newest.retries = sum32(newest.retries, uint32(min(unknown, math.MaxUint32)))
}

func (b *Budget) at(index uint64) *bucket { return &b.ring[index%ring] }

func sum32(a, b uint32) uint32 { return uint32(min(uint64(a)+uint64(b), math.MaxUint32)) }
