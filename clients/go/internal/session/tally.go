package session

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/rules"
)

// Counter counts attempts made on one pushed state, of one dependency and epoch, until the next report
// takes them along. An attempt is counted when it ends, its start and its end together: counted when
// it starts, one whose failure is told with a question, which counts the start again, would deposit
// twice.
//
// Its cells spread the callers, so that they do not wait for one another on the success path.
type Counter struct {
	dependency string
	epoch      uint64
	slowAfter  atomic.Uint64
	// isDirty: it is on the list of the next report.
	isDirty atomic.Bool
	cells   []cell
}

type cell struct {
	mu     sync.Mutex
	counts counts
	_      [64]byte // no two share a cache line
}

type counts struct {
	byKind [rules.Cancelled + 1]uint32
	// starts since the present stream began.
	starts     uint32
	slow       uint32
	latencySum rules.Nanos
}

var cellCount = func() int {
	count := 1
	for count < 4*runtime.GOMAXPROCS(0) && count < 256 {
		count *= 2
	}
	return count
}()

func newCounter(dependency string, epoch uint64, slowAfter rules.Nanos) *Counter {
	c := &Counter{dependency: dependency, epoch: epoch, cells: make([]cell, cellCount)}
	c.slowAfter.Store(uint64(slowAfter))
	return c
}

func (c *Counter) note(outcome *rules.Outcome) {
	cell := &c.cells[rand.Uint32()&uint32(len(c.cells)-1)]
	cell.mu.Lock()
	defer cell.mu.Unlock()
	count(&cell.counts.byKind[outcome.Kind], 1)
	count(&cell.counts.starts, 1)
	if !outcome.HasLatency {
		return
	}
	if slow := rules.Nanos(c.slowAfter.Load()); slow > 0 && outcome.Latency >= slow {
		count(&cell.counts.slow, 1)
	}
	cell.counts.latencySum = cell.counts.latencySum.Add(min(outcome.Latency, latencyMax))
}

// take empties the counter. Nil: there was nothing in it.
func (c *Counter) take() *pb.Tally {
	var all counts
	for i := range c.cells {
		cell := &c.cells[i]
		cell.mu.Lock()
		taken := cell.counts
		cell.counts = counts{}
		cell.mu.Unlock()
		for kind, n := range taken.byKind {
			count(&all.byKind[kind], n)
		}
		count(&all.starts, taken.starts)
		count(&all.slow, taken.slow)
		all.latencySum = all.latencySum.Add(taken.latencySum)
	}
	return all.tally(c.dependency, c.epoch)
}

// forgetStarts: a stream begins, and what was counted before it deposits nothing. A fleet that was
// alone for a while had its own budgets of those attempts; told all at once they would be a lump of
// retries just when the service is back.
func (c *Counter) forgetStarts() {
	for i := range c.cells {
		cell := &c.cells[i]
		cell.mu.Lock()
		cell.counts.starts = 0
		cell.mu.Unlock()
	}
}

func (all *counts) tally(dependency string, epoch uint64) *pb.Tally {
	of := func(kinds ...rules.Kind) (sum uint32) {
		for _, kind := range kinds {
			count(&sum, all.byKind[kind])
		}
		return sum
	}
	tally := &pb.Tally{
		Dependency:    dependency,
		Epoch:         epoch,
		FirstAttempts: all.starts,
		Successes:     of(rules.Success),
		// It could not be reached: for the breaker a failure like any.
		Failures:   of(rules.Failure, rules.NotSent),
		Timeouts:   of(rules.Timeout),
		Throttled:  of(rules.Throttled),
		Rejected:   of(rules.Rejected),
		Ignored:    of(rules.Ignored, rules.Cancelled),
		Slow:       all.slow,
		LatencySum: WriteDuration(all.latencySum),
	}
	if all.byKind == (counts{}).byKind {
		return nil
	}
	return tally
}

// count saturates.
func count(into *uint32, n uint32) { *into += min(n, math.MaxUint32-*into) }
