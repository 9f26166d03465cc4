package io.holdoff.client.link;

import io.holdoff.client.rules.Clamp;

/**
 * The client's breaker on the coordinator itself: a service that is slow or fails must not cost
 * each call its timeout.
 *
 * <p>Three questions in a row without an answer shut it for a jittered 1 to 5 s, during which
 * nothing is asked. Then one question is the trial: answered, the gate opens; not, it is shut for
 * twice as long, up to 30 s. A denial is an answer. A service that is heard of meanwhile, by a
 * stream that it takes, gets its trial at once; but once only, since one that takes streams and
 * answers nothing must not be tried more often for it.
 */
final class Gate {
    private static final int FAILURES_TO_SHUT = 3;

    private enum State {
        OPEN,
        SHUT,
        TRIAL
    }

    /** Written under the lock; read without it by those who only look whether it is open. */
    private volatile State state = State.OPEN;

    private int failures;
    private long until;

    /** Since it was shut: trials that failed, and whether the service was heard of. */
    private int failedTrials;

    private boolean wasHeard;

    /** Permission to ask one question, whose end is to be said. */
    record Pass(boolean isTrial) {}

    private static final Pass PLAIN = new Pass(false);
    private static final Pass TRIAL = new Pass(true);

    /** Null: decide without asking. */
    synchronized Pass enter(long now) {
        return switch (state) {
            case OPEN -> PLAIN;
            case TRIAL -> null;
            case SHUT -> {
                if (now - until < 0) {
                    yield null;
                }
                state = State.TRIAL;
                yield TRIAL;
            }
        };
    }

    /** The service is heard of: the next question may be the trial. */
    synchronized void heard(long now) {
        if (state == State.SHUT && !wasHeard) {
            until = until - now < 0 ? until : now;
            wasHeard = true;
        }
    }

    /** How long nothing is asked; 0: a question may be asked now, or is the trial. */
    synchronized long shutFor(long now) {
        return state == State.SHUT && until - now > 0 ? until - now : 0;
    }

    boolean isOpen() {
        return state == State.OPEN;
    }

    /** True: it was shut and is open again. A late answer proves as much as a trial. */
    synchronized boolean answered() {
        boolean wasShut = state != State.OPEN;
        state = State.OPEN;
        failures = 0;
        return wasShut;
    }

    /** With {@code unit} uniform in [0, 1). True: it has just been shut. */
    synchronized boolean unanswered(Pass pass, long now, double unit) {
        switch (state) {
            case OPEN -> {
                failures++;
                if (failures < FAILURES_TO_SHUT) {
                    return false;
                }
                failedTrials = 0;
                wasHeard = false;
            }
            case TRIAL -> {
                if (!pass.isTrial()) {
                    return false;
                }
                failedTrials++;
            }
            case SHUT -> {
                return false;
            }
        }
        state = State.SHUT;
        until = now + Clamp.shut(failedTrials, unit);
        return true;
    }

    /** The caller gave up, or never got to ask: the next one may try. */
    synchronized void unsaid(Pass pass, long now) {
        if (pass.isTrial() && state == State.TRIAL) {
            state = State.SHUT;
            until = now;
        }
    }
}
