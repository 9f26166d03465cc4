package io.holdoff.client.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** The client's breaker on the service itself. */
final class GateTest {
    private static final long SECOND = 1_000_000_000L;

    private final Gate gate = new Gate();

    private boolean fail(long now) {
        return gate.unanswered(gate.enter(now), now, 0.5);
    }

    private void shut(long now) {
        assertFalse(fail(now));
        assertFalse(fail(now));
        assertTrue(fail(now));
    }

    @Test
    void threeUnansweredQuestionsInARowShutItAndAnAnswerBetweenDoesNot() {
        assertFalse(fail(0));
        assertFalse(fail(0));
        assertFalse(gate.answered());
        shut(0);
        assertNull(gate.enter(0));
        assertEquals(3 * SECOND, gate.shutFor(0));
    }

    @Test
    void afterItsTimeOneTrialPassesAndDecides() {
        shut(0);
        Gate.Pass trial = gate.enter(3 * SECOND);
        assertNull(gate.enter(3 * SECOND), "only one trial");
        assertTrue(gate.unanswered(trial, 3 * SECOND, 0));
        assertNull(gate.enter(5 * SECOND - 1));
        assertNotNull(gate.enter(5 * SECOND));
        assertTrue(gate.answered());
        assertEquals(0, gate.shutFor(5 * SECOND));
    }

    @Test
    void aTrialThatIsGivenUpLeavesItAsItWas() {
        shut(0);
        gate.unsaid(gate.enter(5 * SECOND), 5 * SECOND);
        assertNotNull(gate.enter(5 * SECOND));
    }

    @Test
    void aServiceThatIsHeardGetsOneTrialEarly() {
        shut(0);
        gate.heard(0);
        assertTrue(fail(0), "the early trial");
        gate.heard(0);
        assertNull(gate.enter(0), "no second one");
    }
}
