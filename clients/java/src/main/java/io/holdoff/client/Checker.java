package io.holdoff.client;

import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Runs a health check again and again, when the service says. Made by {@link Holdoff#check}.
 *
 * <p>The next run is planned as soon as the one before has ended, and the question carries how it
 * ended. Where others check, their verdict is told and the service is asked again when it says.
 * Checks are what an outage is found by, so they go on without the service, on the grid that it
 * gave last. One at a time: the next is not looked for before the last has ended.
 */
public final class Checker {
    private static final Duration PERIOD = Duration.ofSeconds(30);
    private static final Duration TIMEOUT = Duration.ofSeconds(2);

    /** Whatever is planned, runs and questions are so far apart. */
    static final Duration APART_MIN = Duration.ofMillis(10);

    /** Of a client for tests. */
    private static final long TESTING_RUNS = 3;

    private final Core core;
    private final String dependency;
    private final HealthCheck check;
    private Duration period = PERIOD;
    private Duration timeout = TIMEOUT;
    private long runs = Long.MAX_VALUE;
    private Consumer<? super Finding> told = finding -> {};

    /** One check. */
    @FunctionalInterface
    public interface HealthCheck {
        /**
         * Looks whether the dependency answers as it should.
         *
         * @param check how long it may take
         * @return true where it does
         * @throws Exception it does not; an error says so too, unless it is one of the virtual
         *     machine, which ends the checker
         */
        boolean run(Check check) throws Exception;
    }

    /**
     * What a check is told.
     *
     * @param timeout its thread is interrupted after so long, which counts as unhealthy
     * @param isLocal not planned by the service
     */
    public record Check(Duration timeout, boolean isLocal) {}

    Checker(Core core, String dependency, HealthCheck check) {
        this.core = core;
        this.dependency = Objects.requireNonNull(dependency, "dependency");
        this.check = Objects.requireNonNull(check, "check");
    }

    /**
     * The time between two runs while the service has planned none.
     *
     * @param between 30 s unless said, at least 10 ms
     * @return this
     */
    public Checker period(Duration between) {
        period = between.compareTo(APART_MIN) < 0 ? APART_MIN : between;
        return this;
    }

    /**
     * How long a run may take while the service has planned none.
     *
     * @param longest 2 s unless said
     * @return this
     */
    public Checker timeout(Duration longest) {
        timeout = Objects.requireNonNull(longest, "timeout");
        return this;
    }

    /**
     * Ends after so many own runs.
     *
     * @param most never unless said
     * @return this
     */
    public Checker runs(long most) {
        runs = most;
        return this;
    }

    /**
     * Is told each finding; no further check is made before it returns.
     *
     * @param listener is called by the thread that checks
     * @return this
     */
    public Checker told(Consumer<? super Finding> listener) {
        told = Objects.requireNonNull(listener, "told");
        return this;
    }

    /**
     * Checks on this thread until it has made its runs. A client for tests makes three at most,
     * and does not wait between them.
     *
     * @return what was done
     * @throws InterruptedException it was told to end
     */
    public Checked run() throws InterruptedException {
        CheckCourse course = new CheckCourse(core, dependency, period, timeout, told);
        long most = core.isTesting() ? Math.min(runs, TESTING_RUNS) : runs;
        long made = 0;
        Optional<Boolean> last = Optional.empty();
        while (true) {
            course.plan();
            if (made >= most) {
                return new Checked(made, last);
            }
            if (!course.waitForRun()) {
                continue;
            }
            Finding.Ran ran = runOnce(course);
            made++;
            last = Optional.of(ran.isHealthy());
            course.ran(ran);
        }
    }

    /**
     * Checks on a daemon thread of its own.
     *
     * @param thread its name
     * @return ends as {@link #run} does; cancelled, it interrupts a check and ends
     */
    public CompletableFuture<Checked> start(String thread) {
        CompletableFuture<Checked> ended = new CompletableFuture<>();
        Thread running =
                new Thread(
                        () -> {
                            try {
                                ended.complete(run());
                            } catch (Throwable why) {
                                ended.completeExceptionally(why);
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

    private Finding.Ran runOnce(CheckCourse course) throws InterruptedException {
        long begun = System.nanoTime();
        boolean isLocal = course.isLocal();
        Limit limit = Limit.of(core.loop(), course.timeoutOfRun());
        boolean isHealthy = false;
        try (limit) {
            isHealthy = check.run(new Check(Duration.ofNanos(course.timeoutOfRun()), isLocal));
        } catch (VirtualMachineError fatal) {
            throw fatal;
        } catch (Throwable failed) {
            limit.close();
            if (failed instanceof InterruptedException told && !limit.hasFired()) {
                throw told;
            }
        }
        boolean timedOut = limit.hasFired();
        Duration took = Duration.ofNanos(System.nanoTime() - begun);
        return new Finding.Ran(isHealthy && !timedOut, timedOut, took, isLocal, Optional.empty());
    }

    static void pause(long until) throws InterruptedException {
        long wait = until - System.nanoTime();
        if (wait > 0) {
            TimeUnit.NANOSECONDS.sleep(wait);
        }
    }
}
