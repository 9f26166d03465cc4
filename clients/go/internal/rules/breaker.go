package rules

import "slices"

type phase uint8

const (
	closed phase = iota
	open
	halfOpen
)

// breaker is that of one process. Half-open begins with its first probe. Each change of phase raises
// the epoch, by which late outcomes are told apart.
type breaker struct {
	phase     phase
	epoch     uint64
	since     Time
	level     uint32
	openUntil Time
	// good are the probes that succeeded in a row.
	good     int
	leases   []*Permit
	detector Detector
}

func newBreaker(now Time) breaker {
	return breaker{epoch: 1, since: now, detector: NewDetector()}
}

// admits says whether an attempt may be made, and whether it is a probe.
func (b *breaker) admits(now Time, spread float64) (isProbe bool, denial *Denial) {
	if b.phase == closed {
		return false, nil
	}
	if b.phase == open && now < b.openUntil {
		wait := now.Until(b.openUntil).Add(probeSpread.Part(spread))
		return false, &Denial{Reason: BreakerOpen, RetryAfter: wait}
	}
	b.leases = slices.DeleteFunc(b.leases, func(p *Permit) bool { return now >= p.leaseEnds })
	if len(b.leases) == 0 {
		return true, nil
	}
	ends := b.leases[0].leaseEnds
	wait := max(now.Until(ends).Add(probeSpread).Part(spread), Millisecond)
	return false, &Denial{Reason: ProbeInProgress, RetryAfter: wait}
}

func (b *breaker) lease(permit *Permit, now Time) {
	if b.phase == open {
		b.enter(halfOpen, now)
		b.good = 0
	}
	permit.isProbe, permit.leaseEnds = true, now.Add(probeLease)
	b.leases = append(b.leases, permit)
}

// endLease: true where it was still live.
func (b *breaker) endLease(permit *Permit, now Time) bool {
	if !permit.isProbe {
		return false
	}
	b.leases = slices.DeleteFunc(b.leases, func(p *Permit) bool { return p == permit })
	return now < permit.leaseEnds
}

// take learns from an outcome of the present epoch.
func (b *breaker) take(p *Policy, outcome *Outcome, isProbe bool, now Time) {
	isGood, isBad := false, false
	switch outcome.Kind {
	case Success:
		isGood = true
	case Failure, Timeout, NotSent:
		isBad = true
	}
	switch {
	case b.phase == halfOpen && isProbe && isBad:
		b.trip(p, now)
	case b.phase == halfOpen && isProbe && isGood:
		b.good++
		if b.good >= proven {
			b.enter(closed, now)
		}
	case b.phase == closed && isGood:
		b.detector.Record(1, 0, now)
	case b.phase == closed && isBad && b.detector.Record(0, 1, now):
		if now.Since(b.since) >= healthyReset {
			b.level = 0
		}
		b.trip(p, now)
	}
}

func (b *breaker) trip(p *Policy, now Time) {
	period := float64(p.OpenFor)
	for range min(b.level, levelMax) {
		period = float64(period * p.OpenMultiplier)
	}
	b.enter(open, now)
	b.openUntil = now.Add(min(truncated(period), p.OpenMax))
	b.level = sum32(b.level, 1)
}

func (b *breaker) enter(next phase, now Time) {
	b.phase, b.since = next, now
	b.epoch++
	b.detector.Clear()
}
