package session

import (
	"testing"
	"time"
)

const timeout = 50 * time.Millisecond

func shutGate(t *testing.T, now time.Time) *gate {
	t.Helper()
	g := &gate{}
	for i := range failuresToShut {
		pass, may := g.enter(now, timeout)
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
		pass, _ := g.enter(now, timeout)
		if i%3 == 2 {
			pass.answered(now)
		} else if pass.unanswered(now, 0.5) {
			t.Fatal("it was shut")
		}
	}
	if _, may := shutGate(t, now).enter(now, timeout); may {
		t.Error("a shut gate lets through")
	}
}

func TestAfterItsTimeOneTrialPassesAndDecides(t *testing.T) {
	now := time.Now()
	g := shutGate(t, now)
	later := now.Add(3 * time.Second)
	trial, may := g.enter(later, timeout)
	if !may {
		t.Fatal("no trial")
	}
	if _, may := g.enter(later, timeout); may {
		t.Error("a second trial")
	}
	trial.unanswered(later, 0)
	if _, may := g.enter(later.Add(1999*time.Millisecond), timeout); may {
		t.Error("shut for less than 2 s after a trial failed")
	}
	trial, _ = g.enter(later.Add(2*time.Second), timeout)
	if !trial.answered(later) {
		t.Error("it was not open again")
	}
}

func TestATrialThatIsGivenUpLeavesTheGateAsItWas(t *testing.T) {
	now := time.Now()
	g := shutGate(t, now)
	later := now.Add(5 * time.Second)
	trial, _ := g.enter(later, timeout)
	trial.unsaid(later)
	if _, may := g.enter(later, timeout); !may {
		t.Error("nobody may try any more")
	}
}

func TestAServiceThatIsHeardGetsOneTrialEarly(t *testing.T) {
	now := time.Now()
	g := shutGate(t, now)
	g.heard(now)
	trial, may := g.enter(now, timeout)
	if !may {
		t.Fatal("no early trial")
	}
	trial.unanswered(now, 0.5)
	g.heard(now)
	if _, may := g.enter(now, timeout); may {
		t.Error("a second early trial")
	}
}

func TestAReturnIsSpreadOverLessThanFiveSecondsGrowingToThirtyWhereTheServiceIsIll(t *testing.T) {
	now := time.Now()
	c := course{}
	for _, expected := range []time.Duration{4500 * time.Millisecond, 9 * time.Second, 18 * time.Second, 30 * time.Second, 30 * time.Second} {
		c.ended(0, endUnproven, now, 1)
		if wait := c.notBefore.Sub(now); wait != expected {
			t.Errorf("%v, expected %v", wait, expected)
		}
	}
	for range 3 {
		c.nothingReachable(now, 1)
		if wait := c.notBefore.Sub(now); wait != 4500*time.Millisecond {
			t.Errorf("nobody listens: %v", wait)
		}
	}
}

func TestASilentEndpointIsLeftForTheNextOneAfterOneToFourAndAHalfSeconds(t *testing.T) {
	now := time.Now()
	c := course{}
	for unit, expected := range map[float64]time.Duration{0: time.Second, 1: 4500 * time.Millisecond} {
		c.ended(0, endUnheard, now, unit)
		if wait := c.notBefore.Sub(now); wait != expected || c.start != 1 {
			t.Errorf("%v, endpoint %d", wait, c.start)
		}
	}
}

func TestASilentEndpointThatWasListenedToIsLeftAtOnce(t *testing.T) {
	now := time.Now()
	c := course{}
	c.ended(0, endSilent, now, 1)
	if !c.notBefore.Equal(now) || c.start != 1 {
		t.Errorf("%v, endpoint %d", c.notBefore.Sub(now), c.start)
	}
}

func enter(t *testing.T, g *gate, now time.Time) *pass {
	t.Helper()
	p, may := g.enter(now, timeout)
	if !may {
		t.Fatal("it was not asked")
	}
	return p
}

func TestOfABurstThreeWaitTheWholeTimeoutAndTheOthersHalfOfIt(t *testing.T) {
	now := time.Now()
	g := &gate{}
	for i := range 100 {
		p := enter(t, g, now.Add(time.Duration(i)*100*time.Microsecond))
		most := timeout
		if i >= 3 {
			most = timeout/2 - time.Duration(i)*100*time.Microsecond
		}
		if p.wait != most || p.isWhole != (i < 3) {
			t.Fatalf("question %d waits %v, as a whole: %v", i, p.wait, p.isWhole)
		}
	}
	if _, may := g.enter(now.Add(timeout/2), timeout); may {
		t.Error("it waits for a service that has been silent for half a timeout")
	}
}

func TestAfterAQuestionWithoutAnAnswerTwoMoreWaitAndNobodyElse(t *testing.T) {
	now := time.Now()
	g := &gate{}
	enter(t, g, now).unanswered(now, 0.5)
	second := enter(t, g, now)
	enter(t, g, now)
	if _, may := g.enter(now, timeout); may {
		t.Error("a fourth waits")
	}
	second.answered(now)
	for range 10 {
		enter(t, g, now)
	}
}

func TestTheOthersWaitTwiceAsLongAsAnswersTakeLately(t *testing.T) {
	now := time.Now()
	g := &gate{}
	enter(t, g, now).answered(now.Add(20 * time.Millisecond))
	later := now.Add(time.Second)
	for range 3 {
		enter(t, g, later)
	}
	if p := enter(t, g, later); p.wait != 40*time.Millisecond {
		t.Errorf("%v", p.wait)
	}
}

func TestAQuestionThatIsGivenUpMakesRoomForAnother(t *testing.T) {
	now := time.Now()
	g := &gate{}
	for range 10 {
		p := enter(t, g, now)
		if !p.isWhole {
			t.Fatal("there was no room")
		}
		p.unsaid(now)
	}
}

func TestALateAnswerBringsTheTrialAtOnceAndThenOnceInHalfASecond(t *testing.T) {
	now := time.Now()
	g := shutGate(t, now)
	for _, wait := range []time.Duration{0, lateTrialEvery, lateTrialEvery} {
		g.heardLate(now)
		if _, may := g.enter(now.Add(wait-1), timeout); may && wait > 0 {
			t.Fatal("a trial too early")
		}
		now = now.Add(wait)
		enter(t, g, now).unanswered(now, 0.5)
	}
}

func TestItIsShutUntilATrialMayBeMade(t *testing.T) {
	now := time.Now()
	g := &gate{}
	if g.isShut() {
		t.Error("shut from the beginning")
	}
	g = shutGate(t, now)
	if !g.isShut() {
		t.Error("open after three silent answers")
	}
	g.heard(now)
	if g.isShut() {
		t.Error("shut although the next question is the trial")
	}
	enter(t, g, now).unanswered(now, 0.5)
	if !g.isShut() {
		t.Error("open after a trial in vain")
	}
	enter(t, g, now.Add(10*time.Second)).answered(now)
	if g.isShut() {
		t.Error("shut after an answer")
	}
}
