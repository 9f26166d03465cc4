package session

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/rules"
)

var (
	success = rules.Outcome{Kind: rules.Success}
	failure = rules.Outcome{Kind: rules.Failure}
)

func TestSuccessesWaitTenMillisecondsAndAFailureTakesThemAlongAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := NewReports(&Counting{})
		begun := time.Now()
		reports.Push([]byte("p"), &success)
		if due, isDue := reports.dueAt(); !isDue || due.Sub(begun) != linger {
			t.Errorf("due in %v", due.Sub(begun))
		}
		time.Sleep(3 * time.Millisecond)
		reports.Push([]byte("p"), &failure)
		if due, _ := reports.dueAt(); due.Sub(begun) != 3*time.Millisecond {
			t.Errorf("due in %v", due.Sub(begun))
		}
		if entries := len(reports.take().entries); entries != 2 {
			t.Errorf("%d entries", entries)
		}
	})
}

func TestTalliesAloneWaitATenthToAWholeSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			reports := NewReports(&Counting{})
			reports.Tally(&Heard{counter: newCounter("payments", 1, 0)}, &success)
			due, isDue := reports.dueAt()
			if wait := time.Until(due); !isDue || wait < tallyLinger || wait > tallyLingerMax {
				t.Errorf("due in %v", wait)
			}
		}
	})
}

func TestCL5TheQueueHoldsTenThousandAndCountsWhatItDrops(t *testing.T) {
	counting := &Counting{}
	reports := NewReports(counting)
	for range queueMax + 5 {
		reports.Push([]byte("p"), &success)
	}
	if dropped := counting.ReportsDropped.Load(); dropped != 5 {
		t.Errorf("%d dropped", dropped)
	}
	batches := 0
	for batch := reports.take(); batch != nil; batch = reports.take() {
		batches++
		if len(batch.entries) != batchMax {
			t.Errorf("%d entries", len(batch.entries))
		}
	}
	if batches != 10 {
		t.Errorf("%d batches", batches)
	}
}

func TestABrokenStreamRepeatsABatchOnceUnderItsNumber(t *testing.T) {
	counting := &Counting{}
	reports := NewReports(counting)
	reports.Push([]byte("p"), &success)
	first := reports.take().sequence
	reports.broken()
	reports.Push([]byte("p"), &success)
	if again := reports.take(); again.sequence != first {
		t.Errorf("sequence %d, was %d", again.sequence, first)
	}
	if next := reports.take(); next.sequence != first+1 {
		t.Errorf("sequence %d", next.sequence)
	}
	reports.answered(first+1, true)
	reports.broken()
	if reports.take() != nil || !reports.isEmpty() {
		t.Error("it was repeated twice")
	}
	if counting.Reported.Load() != 1 || counting.ReportsDropped.Load() != 1 {
		t.Errorf("%d reported, %d dropped", counting.Reported.Load(), counting.ReportsDropped.Load())
	}
}

func TestAMessageStaysBelowWhatTheServiceTakes(t *testing.T) {
	reports := NewReports(&Counting{})
	for range 100 {
		reports.Push(make([]byte, 10_000), &success)
	}
	if entries := len(reports.take().entries); entries >= 20 {
		t.Errorf("%d entries of 10 kB", entries)
	}
	asks := make([]*ask, 30)
	for i := range asks {
		asks[i] = &ask{request: &pb.AcquireRequest{CallId: strings.Repeat("x", 10_000)}}
	}
	messages := inMessages(asks)
	if len(messages) != 2 || len(messages[0]) != 19 {
		t.Errorf("%d messages, the first with %d", len(messages), len(messages[0]))
	}
	if messages := inMessages(make([]*ask, 0)); messages != nil {
		t.Error("a message of nothing")
	}
}

func TestNoAttemptIsLostOrCountedTwiceWhileTalliesAreTaken(t *testing.T) {
	const callers, each = 8, 5_000
	reports := NewReports(&Counting{})
	heard := &Heard{counter: newCounter("payments", 1, 0)}
	var counting sync.WaitGroup
	for range callers {
		counting.Go(func() {
			for range each {
				reports.Tally(heard, &success)
			}
		})
	}
	ended := make(chan struct{})
	go func() { counting.Wait(); close(ended) }()
	sum := uint32(0)
	drain := func() {
		for batch := reports.take(); batch != nil; batch = reports.take() {
			sum += batch.entries[0].GetTally().GetSuccesses()
			reports.answered(batch.sequence, true)
		}
	}
	for isOver := false; !isOver; drain() {
		select {
		case <-ended:
			isOver = true
		default:
		}
	}
	if sum != callers*each || !reports.isEmpty() {
		t.Errorf("%d counted of %d", sum, callers*each)
	}
}

func TestASuspendedMachineAgesWhatIsValidAndASteppedWallClockDoesNot(t *testing.T) {
	slept := time.Duration(0)
	clock := newClock(func() time.Duration { return slept })
	now := time.Now()
	before := clock.At(now)
	// The wall clock moves against the monotonic one in both cases.
	clock.drift.Store(int64(time.Hour))
	if at := clock.At(now); at != before {
		t.Errorf("a step moved the clock by %v", at.Since(before).Duration())
	}
	slept = time.Minute
	clock.drift.Store(int64(time.Hour))
	if at := clock.At(now); at.Since(before).Duration() != time.Minute {
		t.Errorf("a minute asleep moved the clock by %v", at.Since(before).Duration())
	}
}

func TestDependenciesAreBoundedAndThoseNotCalledAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := rules.OwnPolicy()
		pushed := NewPushed(newClock(func() time.Duration { return 0 }), &own, []string{"wished"})
		name := func(i int) string { return "d" + vectorsText(i) }
		for i := range dependenciesMax + 100 {
			pushed.Store(&pb.Update{Dependency: name(i)})
		}
		pushed.Store(&pb.Update{Dependency: strings.Repeat("x", nameBytesMax+1)})
		if count := pushed.count.Load(); count != dependenciesMax {
			t.Errorf("%d are kept", count)
		}
		time.Sleep(idle.Duration())
		pushed.Of(name(7)).Word(pushed.clock.Now())
		if left, again := len(pushed.leaveIdle()), len(pushed.leaveIdle()); left != dependenciesMax-1 || again != 0 {
			t.Errorf("%d were left, and %d once more", left, again)
		}
		if followed := pushed.followed(); len(followed) != 2 {
			t.Errorf("%v are followed", followed)
		}
		pushed.Store(&pb.Update{Dependency: "another"})
		if count := pushed.count.Load(); count > 3 {
			t.Errorf("%d are kept where there was no room", count)
		}
	})
}

func TestWhatIsCalledNoLongerKeepsItsPolicyAndIsFollowedAgainOnceItIsCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := rules.OwnPolicy()
		pushed := NewPushed(newClock(func() time.Duration { return 0 }), &own, nil)
		pushed.Store(&pb.Update{Dependency: "payments", Policy: &pb.ClientPolicy{MaxAttempts: 7}})
		time.Sleep(idle.Duration())
		if left := pushed.leaveIdle(); len(left) != 1 {
			t.Errorf("%v were left", left)
		}
		payments := pushed.Of("payments")
		if attempts := payments.Heard().Policy.MaxAttempts; attempts != 7 {
			t.Errorf("the policy allows %d attempts", attempts)
		}
		payments.Word(pushed.clock.Now())
		if followed := pushed.followed(); len(followed) != 1 {
			t.Errorf("%v are followed", followed)
		}
		time.Sleep(idle.Duration())
		if left := pushed.leaveIdle(); len(left) != 1 {
			t.Errorf("%v were left the second time", left)
		}
	})
}

func vectorsText(i int) string {
	return strings.Repeat("i", i%7) + string(rune('a'+i%26)) + time.Duration(i).String()
}

func TestStartsOfBeforeAStreamDepositNothingRepeatedOrNot(t *testing.T) {
	reports := NewReports(&Counting{})
	heard := &Heard{counter: newCounter("payments", 1, 0)}
	expect := func(starts, successes uint32) {
		t.Helper()
		if tally := reports.take().entries[0].GetTally(); tally.GetFirstAttempts() != starts || tally.GetSuccesses() != successes {
			t.Errorf("%v", tally)
		}
	}
	reports.Tally(heard, &success)
	expect(1, 1)
	reports.broken()
	reports.Tally(heard, &success)
	reports.streamBegins()
	expect(0, 1)
	expect(0, 1)
	reports.Tally(heard, &success)
	expect(1, 1)
}

func TestAFailureThatALaterStateHasOvertakenWaitsLikeASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := NewReports(&Counting{})
		reports.TallyLate(&Heard{counter: newCounter("payments", 1, 0)}, &failure)
		if due, _ := reports.dueAt(); time.Until(due) < tallyLinger {
			t.Errorf("due in %v", time.Until(due))
		}
	})
}
