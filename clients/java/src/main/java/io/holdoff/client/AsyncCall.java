package io.holdoff.client;

import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.atomic.AtomicBoolean;

/** A guarded call that blocks no thread. */
final class AsyncCall<T> {
    private final Core core;
    private final OnDenied onDenied;
    private final Classifier classifier;
    private final AsyncOperation<T> operation;
    private final Pending pending = new Pending();
    private final CompletableFuture<T> result = new Cancellable<>(pending::cancel);
    private Asking asking;
    private Throwable error;
    private T value;
    private boolean hasValue;
    private int attempts;

    AsyncCall(
            Core core,
            Question question,
            OnDenied onDenied,
            Classifier classifier,
            AsyncOperation<T> operation) {
        this.core = core;
        this.onDenied = onDenied;
        this.classifier = classifier;
        this.operation = operation;
        asking = Asking.first(core, question);
    }

    CompletableFuture<T> begin() {
        next();
        return result;
    }

    private void next() {
        CompletableFuture<Decision> asked = asking.askLater(pending);
        if (asked.isDone()) {
            hold(asked.join());
        } else {
            asked.whenCompleteAsync((said, fault) -> goOn(fault, () -> hold(said)), core.executor());
        }
    }

    private void hold(Decision said) {
        if (!(said instanceof Permit permit)) {
            decided(said, false);
            return;
        }
        CompletableFuture<Decision> held = permit.holdLater(pending, 0);
        if (held.isDone()) {
            decided(held.join(), true);
        } else {
            held.whenCompleteAsync(
                    (kept, fault) -> goOn(fault, () -> decided(kept, true)), core.executor());
        }
    }

    private void decided(Decision said, boolean wasGranted) {
        if (said instanceof Permit permit) {
            attempts = permit.attempt();
            attempt(permit);
            return;
        }
        Denied denied = ((Decision.No) said).denied();
        OptionalLong wait = Again.after(asking, onDenied, denied, wasGranted);
        if (wait.isEmpty() || pending.isCancelled()) {
            stopped(denied);
            return;
        }
        if (wasGranted) {
            asking.rename();
        }
        CompletableFuture<Void> over = new CompletableFuture<>();
        ScheduledFuture<?> timer = core.loop().after(wait.getAsLong(), () -> over.complete(null));
        if (timer == null) {
            stopped(denied);
            return;
        }
        pending.cancelBy(() -> over.complete(null));
        over.whenCompleteAsync(
                (done, fault) -> {
                    cancel(timer);
                    goOn(fault, this::next);
                },
                core.executor());
    }

    private void attempt(Permit permit) {
        if (pending.isCancelled()) {
            permit.close();
            return;
        }
        long begun = System.nanoTime();
        Long limit = permit.limitNanos();
        CompletableFuture<T> running;
        try {
            running = run(permit);
        } catch (Throwable fatal) {
            // As in a blocking call: an error of the machine is not retried.
            permit.close();
            result.completeExceptionally(fatal);
            return;
        }
        AtomicBoolean wasCut = new AtomicBoolean();
        ScheduledFuture<?> timer =
                limit == null
                        ? null
                        : core.loop()
                                .after(
                                        limit,
                                        () -> cut(running, wasCut));
        pending.cancelBy(() -> running.cancel(true));
        running.whenComplete(
                (returned, thrown) -> {
                    cancel(timer);
                    boolean isCut = thrown != null && wasCut.get();
                    Throwable cause = thrown == null ? null : Later.cause(thrown);
                    try {
                        ended(permit, isCut, returned, cause, begun);
                    } catch (Throwable fatal) {
                        // Of the classifier.
                        permit.close();
                        result.completeExceptionally(fatal);
                    }
                });
    }

    /** Not by the client's own thread, since what hangs on the future is the user's. */
    private void cut(CompletableFuture<T> running, AtomicBoolean wasCut) {
        core.executor()
                .execute(
                        () -> {
                            wasCut.set(true);
                            running.cancel(true);
                        });
    }

    private CompletableFuture<T> run(Permit permit) {
        try {
            CompletionStage<T> stage = operation.run(permit.describe());
            return stage.toCompletableFuture();
        } catch (Exception thrown) {
            return CompletableFuture.failedFuture(thrown);
        }
    }

    private void ended(Permit permit, boolean wasCut, T returned, Throwable thrown, long begun) {
        if (pending.isCancelled()) {
            permit.close();
            return;
        }
        Outcome outcome = Outcome.timeout();
        if (!wasCut) {
            value = returned;
            error = thrown;
            hasValue = thrown == null;
            outcome = Reading.of(core.warnings(), classifier, returned, thrown, begun);
        }
        if (outcome.latencyNanos() < 0) {
            outcome = outcome.latencyNanos(System.nanoTime() - begun);
        }
        if (outcome.kind() == OutcomeKind.SUCCESS && hasValue) {
            permit.report(outcome);
            result.complete(value);
            return;
        }
        asking = permit.next(outcome);
        core.executor().execute(() -> goOn(null, this::next));
    }

    private void stopped(Denied why) {
        asking.tell();
        if (pending.isCancelled()) {
            // The future says so itself.
            return;
        }
        if (hasValue) {
            result.complete(value);
        } else if (error == null) {
            result.completeExceptionally(TimedOutException.of(why, attempts));
        } else {
            Stopped.attach(error, why, attempts);
            result.completeExceptionally(error);
        }
    }

    /** A fault of a step must not leave its caller waiting. */
    private void goOn(Throwable fault, Runnable step) {
        if (fault != null) {
            result.completeExceptionally(fault);
            return;
        }
        try {
            step.run();
        } catch (Throwable odd) {
            result.completeExceptionally(odd);
        }
    }

    private static void cancel(ScheduledFuture<?> timer) {
        if (timer != null) {
            timer.cancel(false);
        }
    }
}
