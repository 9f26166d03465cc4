package session

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/rules"
)

const (
	queueMax    = 10_000
	countersMax = 10_000
	batchMax    = 1_000
	talliesMax  = 500
	// messageBytesMax: the service takes 256 KiB.
	messageBytesMax = 192 * 1024
	// linger is what an outcome under a permit waits for others.
	linger = 10 * time.Millisecond
	// tallyLinger is the shortest of what only tallies wait.
	tallyLinger    = 100 * time.Millisecond
	tallyLingerMax = time.Second
	// unansweredMax: past so many batches the queue fills.
	unansweredMax = 64
)

// Reports are outcomes on their way to the service: a bounded queue, sent in batches.
//
// Reporting never makes a caller wait. A full queue loses the newest outcome and counts it. A batch
// goes out 10 ms after its first outcome under a permit, since a recovering dependency's ramp is
// steered by these; at once when an entry is a failure; and always before a question that carries a
// failure, so that failures never arrive ahead of the successes around them.
// Attempts made on pushed state are counted, and their tallies go first in a batch; alone they wait
// 100 ms to 1 s, jittered.
//
// A batch whose answer was lost with its stream is sent once more under the same sequence number, by
// which the service tells a repetition. Numbers begin at the wall clock, so those of a restarted
// process with the same name are higher than those before.
type Reports struct {
	counting *Counting
	// changed: an entry came, or a batch was answered.
	changed chan struct{}

	mu           sync.Mutex
	queue        []*pb.ReportEntry
	dirty        []*Counter
	due          time.Time
	isDue        bool
	nextSequence uint64
	unanswered   map[uint64]*batch
	resend       []*batch
	// telling are outcomes that are being told in another way.
	telling int
}

type batch struct {
	sequence     uint64
	entries      []*pb.ReportEntry
	isRepetition bool
}

// NewReports has nothing to send.
func NewReports(counting *Counting) *Reports {
	return &Reports{
		counting:     counting,
		changed:      make(chan struct{}, 1),
		nextSequence: uint64(max(time.Now().UnixMicro(), 1)),
		unanswered:   map[uint64]*batch{},
	}
}

// Push takes the end of an attempt under a permit.
func (r *Reports) Push(permit []byte, outcome *rules.Outcome) {
	entry := &pb.ReportEntry{Entry: &pb.ReportEntry_Result{Result: &pb.PermitResult{Permit: permit, Outcome: WriteOutcome(outcome)}}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) >= queueMax {
		r.counting.ReportsDropped.Add(1)
		return
	}
	r.queue = append(r.queue, entry)
	wait := linger
	if outcome.Urgent() || len(r.queue) >= batchMax {
		wait = 0
	}
	r.dueIn(wait)
}

// Tally counts an attempt that was made on pushed state. The common case takes none of the locks that
// all callers share.
func (r *Reports) Tally(heard *Heard, outcome *rules.Outcome) {
	r.tally(heard, outcome, outcome.Urgent())
}

// TallyLate counts one on a state that another has taken the place of: whole fleets learn that at one
// instant, and none of them is in a hurry.
func (r *Reports) TallyLate(heard *Heard, outcome *rules.Outcome) { r.tally(heard, outcome, false) }

func (r *Reports) tally(heard *Heard, outcome *rules.Outcome, isUrgent bool) {
	counter := heard.counter
	if counter == nil {
		return
	}
	counter.note(outcome)
	if counter.isDirty.Load() && !isUrgent {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if counter.isDirty.CompareAndSwap(false, true) {
		if len(r.dirty) >= countersMax {
			counter.isDirty.Store(false)
			r.counting.ReportsDropped.Add(1)
			counter.take()
			return
		}
		r.dirty = append(r.dirty, counter)
	}
	switch {
	case isUrgent:
		r.dueIn(0)
	case !r.isDue:
		r.dueIn(tallyLinger + time.Duration(rand.Int64N(int64(tallyLingerMax-tallyLinger))))
	}
}

// BeginTelling: an outcome is told by a question, until [Reports.EndTelling].
func (r *Reports) BeginTelling() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.telling++
}

// EndTelling of what [Reports.BeginTelling] began.
func (r *Reports) EndTelling() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.telling--
}

// dueIn: what is gathered goes after so long at the latest.
func (r *Reports) dueIn(wait time.Duration) {
	due := time.Now().Add(wait)
	if r.isDue && !due.Before(r.due) {
		return
	}
	r.due, r.isDue = due, true
	r.wake()
}

func (r *Reports) wake() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// dueAt is when a batch should go. False: not before something changes.
func (r *Reports) dueAt() (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(r.unanswered) >= unansweredMax:
		return time.Time{}, false
	case len(r.resend) > 0:
		return time.Now(), true
	default:
		return r.due, r.isDue
	}
}

// take is the next batch, due or not. It counts as unanswered until it is answered.
func (r *Reports) take() *batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.unanswered) >= unansweredMax {
		return nil
	}
	var next *batch
	if len(r.resend) > 0 {
		next, r.resend = r.resend[0], r.resend[1:]
	} else {
		next = r.gather()
	}
	if next != nil {
		r.unanswered[next.sequence] = next
	}
	return next
}

func (r *Reports) gather() *batch {
	entries := r.gatherTallies()
	// A tally takes 300 bytes at most, so that these leave room.
	bytes := 0
	for _, entry := range entries {
		bytes += proto.Size(entry) + 8
	}
	taken := 0
	for _, entry := range r.queue {
		bytes += proto.Size(entry) + 8
		if len(entries) > 0 && (len(entries) >= batchMax || bytes > messageBytesMax) {
			break
		}
		entries = append(entries, entry)
		taken++
	}
	r.queue = slices.Delete(r.queue, 0, taken)
	r.isDue = len(r.queue) > 0 || len(r.dirty) > 0
	r.due = time.Now()
	if len(entries) == 0 {
		return nil
	}
	r.nextSequence++
	return &batch{sequence: r.nextSequence - 1, entries: entries}
}

func (r *Reports) gatherTallies() []*pb.ReportEntry {
	var entries []*pb.ReportEntry
	taken := 0
	for _, counter := range r.dirty {
		if len(entries) >= talliesMax {
			break
		}
		taken++
		// In this order: who counts after it puts the counter on the list again.
		counter.isDirty.Store(false)
		if tally := counter.take(); tally != nil {
			entries = append(entries, &pb.ReportEntry{Entry: &pb.ReportEntry_Tally{Tally: tally}})
		}
	}
	r.dirty = slices.Delete(r.dirty, 0, taken)
	return entries
}

// answered: the service took the batch, or refused it for good.
func (r *Reports) answered(sequence uint64, wasTaken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	answered, known := r.unanswered[sequence]
	if !known {
		return
	}
	delete(r.unanswered, sequence)
	if wasTaken {
		r.counting.Reported.Add(uint64(len(answered.entries)))
	} else {
		r.counting.ReportsDropped.Add(uint64(len(answered.entries)))
	}
	r.wake()
}

// streamBegins: what was counted before deposits nothing, in a batch that is repeated either.
func (r *Reports) streamBegins() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, counter := range r.dirty {
		counter.forgetStarts()
	}
	for _, batch := range r.resend {
		for _, entry := range batch.entries {
			if tally := entry.GetTally(); tally != nil {
				tally.FirstAttempts = 0
			}
		}
	}
}

// broken: what was not answered goes once more, on the next stream.
func (r *Reports) broken() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sequence := range slices.Sorted(maps.Keys(r.unanswered)) {
		lost := r.unanswered[sequence]
		if lost.isRepetition {
			r.counting.ReportsDropped.Add(uint64(len(lost.entries)))
			continue
		}
		lost.isRepetition = true
		r.resend = append(r.resend, lost)
	}
	clear(r.unanswered)
	r.wake()
}

func (r *Reports) isEmpty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.unanswered)+len(r.resend)+len(r.queue)+len(r.dirty)+r.telling == 0
}

// hurry: what is queued goes now.
func (r *Reports) hurry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = time.Now()
	r.wake()
}
