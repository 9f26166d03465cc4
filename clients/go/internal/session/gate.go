package session

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdoff/holdoff/clients/go/internal/rules"
)

const (
	failuresToShut = 3
	lateTrialEvery = 500 * time.Millisecond
)

// gate is the client's breaker on the coordinator itself: a service that is slow or fails must not
// cost each call its timeout.
//
// Three questions in a row without an answer shut it for a jittered 1 to 5 s, during which nothing is
// asked. Then one question is the trial: answered, the gate opens; not, it is shut for twice as long,
// up to 30 s. A denial is an answer. A service that is heard of meanwhile, by a stream that it takes,
// gets its trial at once; but once only, since one that takes streams and answers nothing must not be
// tried more often for it. An answer that comes too late does the same, and again after each half
// second: that service does answer, and may only have been short of a processor.
//
// Three in a row, and three at the same time: of the questions that are under way the first three wait
// for as long as the caller says, the others only until the first of them has waited for half of it (or
// twice as long as answers take lately, if that is more). So a burst that meets a silent service costs
// three calls their timeout. After a question without an answer the others are not asked at all until
// there is one.
type gate struct {
	mu       sync.Mutex
	state    gateState
	failures int
	until    time.Time
	// shut is until where it is shut, for those who take no lock; nil: it is not.
	shut atomic.Pointer[time.Time]
	// failedTrials, wasHeard and lateTrialAt are of the time since it was shut.
	failedTrials uint32
	wasHeard     bool
	lateTrialAt  time.Time
	// waiting are those that wait the whole timeout.
	waiting    []*pass
	answeredAt time.Time
	// usual is how long answers take lately: what the longest took, and an eighth less each time.
	usual time.Duration
}

type gateState uint8

const (
	gateOpen gateState = iota
	gateShut
	gateTrial
)

// pass is permission to ask one question, and to wait so long for its answer.
type pass struct {
	gate    *gate
	askedAt time.Time
	wait    time.Duration
	// isWhole: it waits the whole timeout, so that its lateness says something of the service.
	isWhole bool
	isTrial bool
}

// enter: false is "decide without asking".
func (g *gate) enter(now time.Time, timeout time.Duration) (*pass, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &pass{gate: g, askedAt: now, wait: timeout, isWhole: true}
	switch g.state {
	case gateOpen:
		switch {
		case len(g.waiting)+g.failures < failuresToShut:
			g.waiting = append(g.waiting, p)
			return p, true
		case g.failures > 0:
			return nil, false
		}
		p.isWhole, p.wait = false, g.othersUntil(timeout).Sub(now)
		return p, p.wait > 0
	case gateShut:
		if now.Before(g.until) {
			return nil, false
		}
		g.becomes(gateTrial, g.until)
		p.isTrial = true
		return p, true
	default:
		return nil, false
	}
}

// othersUntil is how long those wait that do not wait the whole timeout.
func (g *gate) othersUntil(timeout time.Duration) time.Time {
	first := g.waiting[0].askedAt
	for _, p := range g.waiting {
		if p.askedAt.Before(first) {
			first = p.askedAt
		}
	}
	return later(first, g.answeredAt).Add(min(max(timeout/2, 2*g.usual), timeout))
}

// heard: the next question may be the trial.
func (g *gate) heard(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == gateShut && !g.wasHeard {
		g.wasHeard = true
		if now.Before(g.until) {
			g.becomes(gateShut, now)
		}
	}
}

// heardLate: an answer came for which nobody waited any longer.
func (g *gate) heardLate(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := later(now, g.lateTrialAt); g.state == gateShut && at.Before(g.until) {
		g.becomes(gateShut, at)
	}
}

// becomes is called under the lock.
func (g *gate) becomes(state gateState, until time.Time) {
	g.state, g.until = state, until
	if state == gateShut {
		g.shut.Store(&until)
	} else {
		g.shut.Store(nil)
	}
}

// shutUntil: false is "a question may be asked now, or is the trial".
func (g *gate) shutUntil(now time.Time) (time.Time, bool) {
	until := g.shut.Load()
	if until == nil {
		return time.Time{}, false
	}
	return *until, now.Before(*until)
}

// isShut reads the clock only where it is or was: each first attempt looks.
func (g *gate) isShut() bool {
	until := g.shut.Load()
	return until != nil && time.Now().Before(*until)
}

// noLonger waits; under the lock.
func (p *pass) noLonger() {
	for i, waiting := range p.gate.waiting {
		if waiting == p {
			p.gate.waiting = append(p.gate.waiting[:i], p.gate.waiting[i+1:]...)
			return
		}
	}
}

// answered: true where it was shut and is open again. An answer to a question of before it was shut
// proves as much as a trial.
func (p *pass) answered(now time.Time) bool {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	p.noLonger()
	wasShut := g.state != gateOpen
	g.becomes(gateOpen, g.until)
	g.failures, g.answeredAt = 0, now
	g.usual = max(now.Sub(p.askedAt), g.usual-g.usual/8)
	return wasShut
}

// unanswered: true where it has just been shut. The unit is uniform in [0, 1).
func (p *pass) unanswered(now time.Time, unit float64) bool {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	p.noLonger()
	switch {
	case g.state == gateOpen:
		g.failures++
		if g.failures < failuresToShut {
			return false
		}
		g.failedTrials, g.wasHeard, g.lateTrialAt = 0, false, now
	case g.state == gateTrial && p.isTrial:
		g.failedTrials++
		g.lateTrialAt = now.Add(lateTrialEvery)
	default:
		return false
	}
	g.becomes(gateShut, now.Add(rules.ShutFor(g.failedTrials, unit).Duration()))
	return true
}

// unsaid: the caller gave it up, or never got to ask, or did not wait long enough to say anything. The
// next one may try.
func (p *pass) unsaid(now time.Time) {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	p.noLonger()
	if p.isTrial && g.state == gateTrial {
		g.becomes(gateShut, now)
	}
}
