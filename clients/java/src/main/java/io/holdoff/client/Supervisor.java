package io.holdoff.client;

import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import java.util.function.Predicate;

/**
 * Runs a task and restarts it, after a coordinated and jittered delay, when it throws; until it
 * returns, or a failure is final. Made by {@link Holdoff#supervise}.
 *
 * <p>A restart is asked for like the retry of an idempotent call, so that breaker, budget and
 * calendar hold for a fleet of tasks that fall together. Where the policy allows no further
 * attempt, the supervisor waits for a delay of its own and begins a new chain of attempts; where
 * the service names a time, for that.
 *
 * <p>A start is reported as a success once it has run for long enough, not when it ends: a permit
 * does not live for hours, and silence would count against the dependency.
 *
 * @param <T> what the task returns
 * @param <E> what it throws
 */
public final class Supervisor<T, E extends Exception> {
    private final Core core;
    private final Question question;
    private final Operation<T, E> task;
    private Duration healthyAfter = Duration.ofSeconds(60);
    private Predicate<? super Throwable> isFinal = failure -> false;

    Supervisor(Core core, Question question, Operation<T, E> task) {
        this.core = core;
        this.question =
                question.idempotent()
                        .maxAttempts(Integer.MAX_VALUE)
                        .deadline(null)
                        .attemptTimeout(null);
        this.task = Objects.requireNonNull(task, "task");
    }

    /**
     * A run of so long counts as healthy: the next failure is a first one again.
     *
     * @param run 60 s unless said
     * @return this
     */
    public Supervisor<T, E> healthyAfter(Duration run) {
        healthyAfter = Objects.requireNonNull(run, "healthyAfter");
        return this;
    }

    /**
     * After which failures the task is not restarted.
     *
     * @param which none unless said
     * @return this
     */
    public Supervisor<T, E> stopIf(Predicate<? super Throwable> which) {
        isFinal = Objects.requireNonNull(which, "stopIf");
        return this;
    }

    /**
     * Runs the task on this thread. The number of an attempt is 1 for the first start and counts
     * on with each restart; after a healthy run it counts from 2 again. Interrupting the thread
     * stops it.
     *
     * @return what the task returned
     * @throws E the last failure: a final one, or any with a client for tests
     * @throws InterruptedException it was told to stop
     */
    public T run() throws E, InterruptedException {
        Chain chain = new Chain(core, question);
        Throwable last = null;
        while (true) {
            Decision said = chain.permission();
            if (said instanceof Decision.No no) {
                throw this.<RuntimeException>givenUp(last, no.denied(), chain);
            }
            Permit permit = (Permit) said;
            int number = chain.number();
            Attempt attempt =
                    new Attempt(
                            number,
                            permit.limit(),
                            permit.suggestedTimeout(),
                            permit.isProbe(),
                            permit.isLocal());
            long begun = System.nanoTime();
            ScheduledFuture<?> proof = core.loop().after(provenAfter(permit), () -> prove(permit));
            try {
                T value = task.run(attempt);
                permit.report(Outcome.success());
                return value;
            } catch (Throwable failure) {
                stopWhereTold(failure, permit);
                boolean wasHealthy = System.nanoTime() - begun >= healthyAfter.toNanos();
                chain.fell(permit, wasHealthy);
                if (isFinal.test(failure)) {
                    chain.tell();
                    throw failure;
                }
                last = failure;
            } finally {
                if (proof != null) {
                    proof.cancel(false);
                }
            }
        }
    }

    /**
     * Runs the task on a daemon thread of its own.
     *
     * @param thread its name
     * @return ends as {@link #run} does; cancelled, it interrupts the task and stops it
     */
    public CompletableFuture<T> start(String thread) {
        CompletableFuture<T> ended = new CompletableFuture<>();
        Thread running =
                new Thread(
                        () -> {
                            try {
                                ended.complete(run());
                            } catch (Throwable failure) {
                                ended.completeExceptionally(failure);
                            }
                        },
                        thread);
        running.setDaemon(true);
        ended.whenComplete(
                (value, error) -> {
                    if (ended.isCancelled()) {
                        running.interrupt();
                    }
                });
        running.start();
        return ended;
    }

    private long provenAfter(Permit permit) {
        long healthy = healthyAfter.toNanos();
        Long life = permit.lives();
        // Well before the permit's life ends.
        return life == null || life < 0 ? healthy : Math.min(healthy, life - life / 10);
    }

    private static void prove(Permit permit) {
        permit.report(Outcome.success());
    }

    private static void stopWhereTold(Throwable failure, Permit permit)
            throws InterruptedException {
        if (failure instanceof InterruptedException told) {
            permit.close();
            throw told;
        }
    }

    /** Only a client for tests gives up by itself. */
    @SuppressWarnings("unchecked")
    private <X extends Throwable> X givenUp(Throwable last, Denied why, Chain chain) throws X {
        if (last == null) {
            throw new DeniedException(why, 0);
        }
        Stopped.attach(last, why, chain.number() - 1);
        throw (X) last;
    }
}
