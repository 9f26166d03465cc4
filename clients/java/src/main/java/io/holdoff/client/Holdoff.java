package io.holdoff.client;

import io.holdoff.client.link.Link;
import io.holdoff.client.link.Pushed;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Asks holdoff before a call, retries when it says, and goes on without it when it is away.
 *
 * <pre>{@code
 * try (Holdoff holdoff = Holdoff.builder().service("checkout").build()) {
 *     Receipt receipt = holdoff.guard("payments")
 *             .idempotent()
 *             .deadline(Duration.ofSeconds(2))
 *             .call(attempt -> charge(order));
 * }
 * }</pre>
 *
 * <p>Where the service has pushed that first attempts go, they go without a question; where it
 * refuses them, they fail at once. The service being down, slow or wrong never fails a call and
 * never delays it by more than the client's timeout (50 ms unless set): the client then decides by
 * the same rules over what this process alone knows.
 *
 * <p>Safe for use by several threads. One client a process will do; it has one connection and one
 * daemon thread.
 */
public final class Holdoff implements AutoCloseable {
    private static final long MILLISECOND = 1_000_000L;

    private final Core core;

    Holdoff(Core core) {
        this.core = core;
    }

    /**
     * Settings, to be built.
     *
     * @return the usual ones
     */
    public static HoldoffBuilder builder() {
        return new HoldoffBuilder();
    }

    /**
     * For tests of code that makes calls: no service, no waiting, no breaker, at most three
     * attempts a call. What can never be retried is not retried here either.
     *
     * @return a client for tests
     */
    public static Holdoff testing() {
        return HoldoffBuilder.testing();
    }

    /**
     * Guarded calls to a dependency.
     *
     * @param dependency its name
     * @return a guard with the usual settings: an unsafe call without a deadline
     */
    public Guard guard(String dependency) {
        return guard(Question.of(dependency));
    }

    /**
     * Guarded calls about which this is asked.
     *
     * @param question what the caller says about them
     * @return a guard
     * @throws IllegalArgumentException no dependency can have this name
     */
    public Guard guard(Question question) {
        core.checkName(question.dependency());
        return new Guard(core, question, OnDenied.FAIL, Classifier.standard());
    }

    /**
     * Makes a guarded call: {@link Guard#call} of {@link #guard(String)}.
     *
     * @param <T> what the operation returns
     * @param <E> what the operation throws
     * @param dependency what is called
     * @param operation makes one attempt
     * @return its result
     * @throws E the last real error
     */
    public <T, E extends Exception> T call(String dependency, Operation<T, E> operation) throws E {
        return guard(dependency).call(operation);
    }

    /**
     * Makes a guarded call that blocks no thread: {@link Guard#callAsync} of {@link
     * #guard(String)}.
     *
     * @param <T> what the operation returns
     * @param dependency what is called
     * @param operation begins one attempt
     * @return ends with the result or the last real error
     */
    public <T> CompletableFuture<T> callAsync(String dependency, AsyncOperation<T> operation) {
        return guard(dependency).callAsync(operation);
    }

    /**
     * Only the question, about a call with the usual settings.
     *
     * @param dependency what is to be called
     * @return permission for the first attempt
     * @throws DeniedException it may not be made
     * @throws InterruptedException the caller gave it up
     */
    public Permit acquire(String dependency) throws InterruptedException {
        return acquire(Question.of(dependency));
    }

    /**
     * Only the question. {@link Permit#await} before the attempt, {@link Permit#report} or {@link
     * Permit#retry} after it.
     *
     * @param question what the caller says about the call
     * @return permission for the first attempt
     * @throws DeniedException it may not be made: by the service's decision, pushed or asked for,
     *     or by a local one
     * @throws InterruptedException the caller gave it up
     */
    public Permit acquire(Question question) throws InterruptedException {
        core.checkName(question.dependency());
        return Permit.permit(Asking.first(core, question).ask(), 0);
    }

    /**
     * The same without blocking a thread.
     *
     * @param question what the caller says about the call
     * @return ends with the permit, or with a {@link DeniedException}
     */
    public CompletableFuture<Permit> acquireAsync(Question question) {
        core.checkName(question.dependency());
        Pending pending = new Pending();
        CompletableFuture<Decision> asked = Asking.first(core, question).askLater(pending);
        return Later.shown(core, pending, asked, 0);
    }

    /** Permission whose delay is over. Cancelled, it gives back whatever is granted. */
    CompletableFuture<Permit> obtainAsync(Question question) {
        core.checkName(question.dependency());
        Pending pending = new Pending();
        CompletableFuture<Decision> held =
                Asking.first(core, question)
                        .askLater(pending)
                        .thenCompose(
                                said ->
                                        said instanceof Permit permit
                                                ? permit.holdLater(pending, 0)
                                                : CompletableFuture.completedFuture(said));
        return Later.shown(core, pending, held, 0);
    }

    /**
     * A task that is restarted when it throws, after a coordinated and jittered delay.
     *
     * <pre>{@code
     * holdoff.supervise("consumer/orders", attempt -> consume())
     *         .healthyAfter(Duration.ofSeconds(30))
     *         .start("orders");
     * }</pre>
     *
     * @param <T> what the task returns
     * @param <E> what it throws
     * @param name that of a dependency: the task's own, or what it cannot do without
     * @param task runs until it returns or throws
     * @return a supervisor, to be run or started
     */
    public <T, E extends Exception> Supervisor<T, E> supervise(String name, Operation<T, E> task) {
        core.checkName(name);
        return new Supervisor<>(core, Question.of(name), task);
    }

    /**
     * A health check that is run again and again, when the service says: spread over the fleet, or
     * left to others whose verdict is told instead. Where a policy plans no checks, and without
     * the service, it runs on a schedule of its own.
     *
     * <pre>{@code
     * holdoff.check("payments", check -> ping(check.timeout()))
     *         .told(finding -> log(finding))
     *         .start("payments-check");
     * }</pre>
     *
     * @param dependency what is checked
     * @param check makes one check
     * @return a checker, to be run or started
     */
    public Checker check(String dependency, Checker.HealthCheck check) {
        core.checkName(dependency);
        return new Checker(core, dependency, check);
    }

    /**
     * Why a call was given up that ended with this exception: in itself, among its suppressed
     * ones, or in one of its causes.
     *
     * @param error what a call threw, or its future ended with
     * @return the last reason; empty where it does not come from a guarded call
     */
    public static Optional<Denied> whyStopped(Throwable error) {
        int depth = 0;
        for (Throwable at = error; at != null && depth < Stopped.CAUSES_MAX; at = at.getCause(), depth++) {
            if (at instanceof DeniedException denied) {
                return Optional.ofNullable(denied.denied());
            }
            if (at instanceof TimedOutException late) {
                return Optional.ofNullable(late.denied());
            }
            Stopped stopped = Stopped.in(at);
            if (stopped != null) {
                return Optional.ofNullable(stopped.denied());
            }
        }
        return Optional.empty();
    }

    /**
     * Connects now rather than with the first question, which may then be answered in time, and
     * waits for the state of what {@link HoldoffBuilder#follow} names, no longer than for an
     * answer.
     *
     * @param timeout how long to wait
     * @return false: the service was not reached within it
     * @throws InterruptedException while it waited
     */
    public boolean connect(Duration timeout) throws InterruptedException {
        Link link = core.link();
        if (link == null) {
            return false;
        }
        long begun = System.nanoTime();
        if (!within(link.connect(), timeout.toNanos()).orElse(false)) {
            return false;
        }
        long left = timeout.toNanos() - (System.nanoTime() - begun);
        // What is not heard of by then is asked for.
        within(hearAllWished(link.pushed()), Math.min(left, core.timeout()));
        return true;
    }

    private static <T> Optional<T> within(CompletableFuture<T> future, long nanos)
            throws InterruptedException {
        try {
            return Optional.ofNullable(future.get(Math.max(0, nanos), TimeUnit.NANOSECONDS));
        } catch (TimeoutException late) {
            return Optional.empty();
        } catch (ExecutionException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static CompletableFuture<Void> hearAllWished(Pushed pushed) {
        CompletableFuture<Void> heard = new CompletableFuture<>();
        Runnable look =
                () -> {
                    if (pushed.hasAllWished()) {
                        heard.complete(null);
                    }
                };
        pushed.listen(look);
        look.run();
        return heard.orTimeout(1, TimeUnit.MINUTES)
                .whenComplete((done, error) -> pushed.forget(look));
    }

    /**
     * Waits until the service has taken all outcomes; for a process that ends now.
     *
     * @param timeout how long to wait
     * @return false: some were still on their way after it
     * @throws InterruptedException while it waited
     */
    public boolean flush(Duration timeout) throws InterruptedException {
        Link link = core.link();
        long until = System.nanoTime() + timeout.toNanos();
        while (link != null && !link.reports().isEmpty()) {
            if (System.nanoTime() - until >= 0) {
                return false;
            }
            link.hurry();
            TimeUnit.NANOSECONDS.sleep(MILLISECOND);
        }
        return true;
    }

    /**
     * What it has done so far.
     *
     * @return the counters
     */
    public Counters counters() {
        return Counters.of(core.counting());
    }

    Core core() {
        return core;
    }

    /** Gives the last outcomes a second at most, and ends the connection. */
    @Override
    public void close() {
        if (core.link() != null) {
            try {
                core.link().close().get(2, TimeUnit.SECONDS);
            } catch (InterruptedException givenUp) {
                Thread.currentThread().interrupt();
            } catch (ExecutionException | TimeoutException anyway) {
                // The thread ends all the same, and what was not told is taken for silence.
            }
        }
        core.loop().end();
    }
}
