package io.holdoff.client;

import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;

/** A guarded call on the thread of its caller. */
final class BlockingCall<T, E extends Exception> {
    private final Core core;
    private final OnDenied onDenied;
    private final Classifier classifier;
    private final Operation<T, E> operation;
    private Asking asking;

    /** Of the last attempt that was not cut off: an error, or a value. */
    private Exception error;

    private T value;
    private boolean hasValue;
    private int attempts;

    BlockingCall(
            Core core,
            Question question,
            OnDenied onDenied,
            Classifier classifier,
            Operation<T, E> operation) {
        this.core = core;
        this.onDenied = onDenied;
        this.classifier = classifier;
        this.operation = operation;
        asking = Asking.first(core, question);
    }

    T run() throws E {
        while (true) {
            Decision said = obtainOrCancel();
            if (said instanceof Decision.No no) {
                return stopped(no.denied());
            }
            Permit permit = (Permit) said;
            attempts = permit.attempt();
            Outcome outcome = attempt(permit);
            if (outcome.kind() == OutcomeKind.SUCCESS && hasValue) {
                permit.report(outcome);
                return value;
            }
            asking = permit.next(outcome);
        }
    }

    private Decision obtainOrCancel() {
        try {
            return obtain();
        } catch (InterruptedException givenUp) {
            asking.tell();
            Thread.currentThread().interrupt();
            return new Decision.No(Denied.byCaller(DenialReason.CANCELLED, ""));
        }
    }

    /** A permit that may be used now. */
    private Decision obtain() throws InterruptedException {
        while (true) {
            Decision said = asking.ask();
            boolean wasGranted = said instanceof Permit;
            if (said instanceof Permit permit) {
                said = permit.hold();
            }
            if (!(said instanceof Decision.No no)) {
                return said;
            }
            OptionalLong wait = Again.after(asking, onDenied, no.denied(), wasGranted);
            if (wait.isEmpty()) {
                return no;
            }
            TimeUnit.NANOSECONDS.sleep(wait.getAsLong());
            if (wasGranted) {
                asking.rename();
            }
        }
    }

    /** Runs the operation within its limit. */
    private Outcome attempt(Permit permit) {
        long begun = permit.begins();
        Outcome outcome;
        try {
            outcome = runOnce(permit, begun);
        } catch (Throwable fatal) {
            permit.close();
            throw fatal;
        }
        return outcome.latencyNanos() < 0
                ? outcome.latencyNanos(System.nanoTime() - begun)
                : outcome;
    }

    private Outcome runOnce(Permit permit, long begun) {
        Long nanos = permit.limitNanos();
        T returned;
        Limit limit = Limit.of(core.loop(), nanos);
        try (limit) {
            returned = operation.run(permit.describe());
        } catch (Exception thrown) {
            limit.close();
            if (limit.hasFired()) {
                return Outcome.timeout();
            }
            keep(null, thrown, false);
            return Reading.of(core.warnings(), classifier, null, thrown, begun);
        }
        keep(returned, null, true);
        return Reading.of(core.warnings(), classifier, returned, null, begun);
    }

    private void keep(T returned, Exception thrown, boolean isValue) {
        value = returned;
        error = thrown;
        hasValue = isValue;
    }

    @SuppressWarnings("unchecked")
    private T stopped(Denied why) throws E {
        asking.tell();
        if (hasValue) {
            return value;
        }
        if (error == null) {
            throw TimedOutException.of(why, attempts);
        }
        Denied shown = error instanceof InterruptedException ? cancelled() : why;
        Stopped.attach(error, shown, attempts);
        // The operation has thrown it, so it is an E or unchecked.
        throw (E) error;
    }

    private static Denied cancelled() {
        return Denied.byCaller(DenialReason.CANCELLED, "");
    }
}
