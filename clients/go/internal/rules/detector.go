package rules

import "math"

const (
	// tripsAt is one false trip in 600,000 independent decisions.
	tripsAt  = 13.3
	halfLife = 30 * Second
	// lesson is the number of calls after which a healthy stretch moves the baseline.
	lesson   = 256
	learning = 64
	stretch  = math.MaxUint16
)

// Detector tells a failing dependency from a healthy one by a cumulative sum of evidence (Page's
// CUSUM): the log-likelihood ratio of "fails with p1" against "fails with p0".
//
//	failure: sum += ln(p1 / p0)        success: sum -= ln((1 - p0) / (1 - p1)), at least 0
//	p0 = clamp(2 * baseline, 0.02, 0.2)    p1 = clamp(5 * p0, 0.5, 0.9)
//
// Five straight failures trip it. The sum decays by half in 30 s. The baseline is learned only from
// stretches that ended healthy, so that an outage never teaches that failing is normal.
type Detector struct {
	sum      float64
	baseline float64
	at       Time
	calls    uint64
	failures uint64
}

// NewDetector has seen nothing.
func NewDetector() Detector { return Detector{baseline: 0.01} }

// Record adds outcomes that ended now. True: it trips.
func (d *Detector) Record(successes, failures uint32, now Time) bool {
	if d.sum > 0 || failures > 0 {
		up, down := d.weights()
		against, inFavour := float64(float64(failures)*up), float64(float64(successes)*down)
		d.sum = max(0, d.decayed(now)+float64(against-inFavour))
	}
	d.at = max(d.at, now)
	d.learn(uint64(successes), uint64(failures))
	return d.sum >= tripsAt
}

// Sum is the evidence after the last record.
func (d *Detector) Sum() float64 { return d.sum }

// Clear forgets the evidence and keeps the baseline.
func (d *Detector) Clear() { d.sum, d.calls, d.failures = 0, 0, 0 }

func (d *Detector) decayed(now Time) float64 {
	return d.sum * math.Exp2(-float64(now.Since(d.at))/float64(halfLife))
}

func (d *Detector) learn(successes, failures uint64) {
	calls, failed := d.calls+successes+failures, d.failures+failures
	if calls > stretch {
		failed, calls = failed*stretch/calls, stretch
	}
	d.calls, d.failures = calls, failed
	if d.sum > 0 || calls < lesson {
		return
	}
	share := float64(failed) / float64(calls)
	lessons := float64(min(learning, calls/lesson))
	d.baseline += float64((share - d.baseline) / learning * lessons)
	d.calls, d.failures = 0, 0
}

func (d *Detector) weights() (up, down float64) {
	p0 := min(max(2*d.baseline, 0.02), 0.2)
	p1 := min(max(5*p0, 0.5), 0.9)
	return math.Log(p1 / p0), math.Log((1 - p0) / (1 - p1))
}
