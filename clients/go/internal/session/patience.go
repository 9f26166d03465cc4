package session

import "sync"

const waitingMax = 3

// patience is how many callers wait for a service of which nothing has been heard yet: three in all, at
// once or one after the other. The others decide alone at once, while the connection is made at nobody's
// cost. So a process that begins with a burst of calls pays for three of them, and being slow to start
// is not taken for the service's silence: the gate is for questions that were sent.
type patience struct {
	mu sync.Mutex
	// isHeard: the service has said something on the connection that stands.
	isHeard bool
	waiting int
	// inVain: since it was last heard of.
	inVain int
}

// enter says whether one more caller may wait; then it leaves once.
func (p *patience) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isHeard && p.waiting+p.inVain >= waitingMax {
		return false
	}
	p.waiting++
	return true
}

// isOver: three have waited in vain.
func (p *patience) isOver() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.isHeard && p.inVain >= waitingMax
}

func (p *patience) leave(wasLate bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
	if wasLate && !p.isHeard {
		p.inVain++
	}
}

func (p *patience) heard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isHeard, p.inVain = true, 0
}

// lost: the connection is over.
func (p *patience) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isHeard = false
}
