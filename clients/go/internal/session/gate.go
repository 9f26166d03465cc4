package session

import (
	"sync"
	"time"

	"github.com/holdoff/holdoff/clients/go/internal/rules"
)

const failuresToShut = 3

// gate is the client's breaker on the coordinator itself: a service that is slow or fails must not
// cost each call its timeout.
//
// Three questions in a row without an answer shut it for a jittered 1 to 5 s, during which nothing is
// asked. Then one question is the trial: answered, the gate opens; not, it is shut for twice as long,
// up to 30 s. A denial is an answer. A service that is heard of meanwhile, by a stream that it takes,
// gets its trial at once; but once only, since one that takes streams and answers nothing must not be
// tried more often for it.
type gate struct {
	mu       sync.Mutex
	state    gateState
	failures int
	until    time.Time
	// failedTrials and wasHeard are of the time since it was shut.
	failedTrials uint32
	wasHeard     bool
}

type gateState uint8

const (
	gateOpen gateState = iota
	gateShut
	gateTrial
)

// pass is permission to ask one question.
type pass struct {
	gate    *gate
	isTrial bool
}

// enter: false is "decide without asking".
func (g *gate) enter(now time.Time) (pass, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.state {
	case gateOpen:
		return pass{gate: g}, true
	case gateShut:
		if now.Before(g.until) {
			return pass{}, false
		}
		g.state = gateTrial
		return pass{gate: g, isTrial: true}, true
	default:
		return pass{}, false
	}
}

// heard: the next question may be the trial.
func (g *gate) heard(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == gateShut && !g.wasHeard {
		g.wasHeard = true
		if now.Before(g.until) {
			g.until = now
		}
	}
}

// shutUntil: false is "a question may be asked now, or is the trial".
func (g *gate) shutUntil(now time.Time) (time.Time, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until, g.state == gateShut && now.Before(g.until)
}

// answered: true where it was shut and is open again. A late answer to a question of before it was
// shut proves as much as a trial.
func (p pass) answered() bool {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	wasShut := g.state != gateOpen
	g.state, g.failures = gateOpen, 0
	return wasShut
}

// unanswered: true where it has just been shut. The unit is uniform in [0, 1).
func (p pass) unanswered(now time.Time, unit float64) bool {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.state == gateOpen:
		g.failures++
		if g.failures < failuresToShut {
			return false
		}
		g.failedTrials, g.wasHeard = 0, false
	case g.state == gateTrial && p.isTrial:
		g.failedTrials++
	default:
		return false
	}
	g.state = gateShut
	g.until = now.Add(rules.ShutFor(g.failedTrials, unit).Duration())
	return true
}

// unsaid: the caller gave a trial up, or never got to ask. The next one may try.
func (p pass) unsaid(now time.Time) {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.isTrial && g.state == gateTrial {
		g.state, g.until = gateShut, now
	}
}
