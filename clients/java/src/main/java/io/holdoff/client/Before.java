package io.holdoff.client;

import io.holdoff.client.link.Wire;
import io.holdoff.client.rules.LocalRecord;
import io.holdoff.client.v1.Previous;
import java.util.Optional;
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

    /** This process has counted a first attempt that the service had granted. */
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
        if (!isTold.getAndSet(true)) {
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
     * For the service, with the question about {@code attempt}. A first attempt made on pushed
     * state is told by its epoch, and one that was decided here by the epoch last heard of. A
     * later one cannot be told at all (empty), so a call that has gone on alone ends alone.
     */
    Optional<Previous> onTheWire(long attempt) {
        Previous.Builder previous = Previous.newBuilder().setOutcome(Wire.write(outcome));
        if (made instanceof Made.Fleet fleet) {
            return Optional.of(previous.setPermit(fleet.permit()).build());
        }
        if (made instanceof Made.OnPushed pushed) {
            return Optional.of(previous.setEpoch(pushed.on().epoch()).build());
        }
        return attempt == 2
                ? Optional.of(previous.setEpoch(core.last(dependency).epoch()).build())
                : Optional.empty();
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
