package io.holdoff.client;

import io.holdoff.client.link.Wire;
import io.holdoff.client.rules.LocalRecord;
import io.holdoff.client.v1.Previous;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The attempt before, on its way to whoever answers the question about the next one. How it ended
 * is told once, at the latest when nobody asks any more.
 */
final class Before {
    private final Core core;
    private final String dependency;
    private final Made made;
    private final Outcome outcome;
    private final AtomicBoolean isTold = new AtomicBoolean();

    /** The question with it was held back once. */
    private final AtomicBoolean wasHeldBack = new AtomicBoolean();

    private volatile boolean isLate;

    /** This process has counted a first attempt that the service had let go. */
    private final AtomicBoolean isCountedHere = new AtomicBoolean();

    Before(Core core, String dependency, Made made, Outcome outcome) {
        this.core = core;
        this.dependency = dependency;
        this.made = made;
        this.outcome = outcome;
    }

    Outcome outcome() {
        return outcome;
    }

    void tell() {
        if (isTold.getAndSet(true)) {
            return;
        }
        if (!isCountedHere.get() && core.countIfLost(dependency, made, outcome)) {
            isCountedHere.set(true);
        }
        boolean waits = isLate && outcome.pushback().isEmpty();
        if (waits && made instanceof Made.OnPushed pushed) {
            core.link().reports().tally(dependency, pushed.on(), outcome, false);
        } else {
            core.report(dependency, made, outcome);
        }
    }

    /** The service has taken it with a question. What was decided here is told here. */
    void toldToFleet() {
        if (!(made instanceof Made.Local)) {
            isTold.set(true);
        } else {
            tell();
        }
    }

    /**
     * A question with it may have arrived. Nothing tells an outcome without a permit from another
     * one, while a permit counts once whatever is said of it.
     */
    void mayBeTold() {
        if (made instanceof Made.OnPushed) {
            isTold.set(true);
        }
    }

    /**
     * For the service. An attempt without a permit of its own is told by an epoch: the one whose
     * state it was made on, or the one last heard of when an attempt that was decided here began.
     * So a call that has gone on alone is with the fleet again at its next question, and what
     * failed before a transition does not count after it.
     */
    Previous onTheWire() {
        Previous.Builder previous = Previous.newBuilder().setOutcome(Wire.write(outcome));
        if (made instanceof Made.Fleet fleet) {
            previous.setPermit(fleet.permit());
        } else if (made instanceof Made.OnPushed pushed) {
            previous.setEpoch(pushed.on().epoch());
        } else if (made instanceof Made.Local own) {
            previous.setEpoch(own.begunIn());
        }
        return previous.build();
    }

    /** The epoch of the pushed state it was made on, once; null: nothing holds it back. */
    Long epochToHoldBack() {
        boolean isFirst = made instanceof Made.OnPushed && !wasHeldBack.getAndSet(true);
        return isFirst ? (Long) ((Made.OnPushed) made).on().epoch() : null;
    }

    /**
     * The service has pushed a later state, of which this says nothing. A call that ends so has it
     * tallied with the rest, in no hurry, since a whole fleet learns of a trip at one instant; one
     * that asks again tells it with the question.
     */
    void isOvertaken() {
        isLate = true;
    }

    /** For this process's own record. A first attempt that the service let go is counted there, once. */
    LocalRecord.Before here() {
        if (made instanceof Made.Local own) {
            return new LocalRecord.Before(own.permit(), outcome, false);
        }
        boolean isNew = !isCountedHere.getAndSet(true);
        return new LocalRecord.Before(null, outcome, isNew);
    }
}
