package holdoff

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/holdoff/holdoff/clients/go/internal/rules"
)

const (
	localsMax = 10_000
	localIdle = 600 * rules.Second
)

// locals are what this process knows itself, by dependency.
type locals struct {
	entries sync.Map // string to *local
	count   atomic.Int64
	// lookedAt is when there was no room last: what is idle is looked for once a second.
	lookedAt atomic.Uint64
	// shared is that of all for which there is no room.
	shared local
}

type local struct {
	mu    sync.Mutex
	rules *rules.Local
	used  rules.Time
}

// with calls f with the record of a dependency, alone.
func (l *locals) with(dependency string, now rules.Time, f func(*rules.Local)) {
	found, known := l.entries.Load(dependency)
	if !known {
		found = l.add(dependency, now)
	}
	entry := found.(*local)
	entry.mu.Lock()
	defer entry.mu.Unlock()
	if entry.rules == nil {
		entry.rules = rules.NewLocal(now)
	}
	entry.used = now
	f(entry.rules)
}

// withKnown does it where there is a record.
func (l *locals) withKnown(dependency string, f func(*rules.Local)) {
	if found, known := l.entries.Load(dependency); known {
		entry := found.(*local)
		entry.mu.Lock()
		defer entry.mu.Unlock()
		f(entry.rules)
	}
}

// add: past the limit those not called for long go, and then those unknown share one record.
func (l *locals) add(dependency string, now rules.Time) any {
	looked := l.lookedAt.Load()
	if l.count.Load() >= localsMax && now.Since(rules.Time(looked)) > rules.Second && l.lookedAt.CompareAndSwap(looked, uint64(now)) {
		l.forgetIdle(now)
	}
	if l.count.Load() >= localsMax {
		return &l.shared
	}
	found, known := l.entries.LoadOrStore(dependency, &local{rules: rules.NewLocal(now), used: now})
	if !known {
		l.count.Add(1)
	}
	return found
}

func (l *locals) forgetIdle(now rules.Time) {
	l.entries.Range(func(name, entry any) bool {
		known := entry.(*local)
		known.mu.Lock()
		isIdle := now.Since(known.used) >= localIdle
		known.mu.Unlock()
		if isIdle {
			if _, was := l.entries.LoadAndDelete(name); was {
				l.count.Add(-1)
			}
		}
		return true
	})
}

// draws come from the operating system's generator, seeded once a process.
func draws() rules.Draws {
	return rules.Draws{Jitter: rand.Float64(), Spread: rand.Float64()}
}
