package session

import (
	"testing"
	"time"
)

func shutGate(t *testing.T, now time.Time) *gate {
	t.Helper()
	g := &gate{}
	for i := range failuresToShut {
		pass, may := g.enter(now)
		if !may {
			t.Fatalf("question %d was not asked", i)
		}
		if hasShut := pass.unanswered(now, 0.5); hasShut != (i == failuresToShut-1) {
			t.Fatalf("question %d has shut it: %v", i, hasShut)
		}
	}
	return g
}

func TestThreeUnansweredQuestionsInARowShutItAndAnAnswerBetweenDoesNot(t *testing.T) {
	now := time.Now()
	g := &gate{}
	for i := range 9 {
		pass, _ := g.enter(now)
		if i%3 == 2 {
			pass.answered()
		} else if pass.unanswered(now, 0.5) {
			t.Fatal("it was shut")
		}
	}
	if _, may := shutGate(t, now).enter(now); may {
		t.Error("a shut gate lets through")
	}
}

func TestAfterItsTimeOneTrialPassesAndDecides(t *testing.T) {
	now := time.Now()
	g := shutGate(t, now)
	later := now.Add(3 * time.Second)
	trial, may := g.enter(later)
	if !may {
		t.Fatal("no trial")
	}
	if _, may := g.enter(later); may {
		t.Error("a second trial")
	}
	trial.unanswered(later, 0)
	if _, may := g.enter(later.Add(1999 * time.Millisecond)); may {
		t.Error("shut for less than 2 s after a trial failed")
	}
	trial, _ = g.enter(later.Add(2 * time.Second))
	if !trial.answered() {
		t.Error("it was not open again")
	}
}

func TestATrialThatIsGivenUpLeavesTheGateAsItWas(t *testing.T) {
	now := time.Now()
	g := shutGate(t, now)
	later := now.Add(5 * time.Second)
	trial, _ := g.enter(later)
	trial.unsaid(later)
	if _, may := g.enter(later); !may {
		t.Error("nobody may try any more")
	}
}

func TestAServiceThatIsHeardGetsOneTrialEarly(t *testing.T) {
	now := time.Now()
	g := shutGate(t, now)
	g.heard(now)
	trial, may := g.enter(now)
	if !may {
		t.Fatal("no early trial")
	}
	trial.unanswered(now, 0.5)
	g.heard(now)
	if _, may := g.enter(now); may {
		t.Error("a second early trial")
	}
}

func TestAReturnIsSpreadOverFiveSecondsGrowingToThirtyWhereTheServiceIsIll(t *testing.T) {
	now := time.Now()
	c := course{}
	for _, seconds := range []int{5, 10, 20, 30, 30} {
		c.ended(0, endUnproven, now, 1)
		if wait := c.notBefore.Sub(now); wait != time.Duration(seconds)*time.Second {
			t.Errorf("%v, expected %d s", wait, seconds)
		}
	}
	for range 3 {
		c.nothingReachable(now, 1)
		if wait := c.notBefore.Sub(now); wait != 5*time.Second {
			t.Errorf("nobody listens: %v", wait)
		}
	}
}

func TestASilentEndpointIsLeftForTheNextOneAfterOneToFiveSeconds(t *testing.T) {
	now := time.Now()
	c := course{}
	for unit, seconds := range map[float64]int{0: 1, 1: 5} {
		c.ended(0, endSilent, now, unit)
		if wait := c.notBefore.Sub(now); wait != time.Duration(seconds)*time.Second || c.start != 1 {
			t.Errorf("%v, endpoint %d", wait, c.start)
		}
	}
}
