package io.holdoff.client;

import io.holdoff.client.rules.Nanos;
import io.holdoff.client.rules.Policy;
import java.time.Duration;

/**
 * What a client keeps to by itself, until the service has pushed its own policy for a dependency.
 * Immutable: each setting returns a new one.
 */
public final class LocalPolicy {
    private final Policy policy;

    private LocalPolicy(Policy policy) {
        this.policy = policy;
    }

    /**
     * The documented defaults: three attempts, full jitter below 100 ms doubling to 10 s, retries
     * for a tenth of this process's own calls and one a second, a breaker that opens for 10 s.
     *
     * @return that policy
     */
    public static LocalPolicy standard() {
        return new LocalPolicy(Policy.OWN);
    }

    /**
     * Attempts of a call, the first one included.
     *
     * @param attempts 1 to 1000, or 0: unlimited
     * @return a new policy
     */
    public LocalPolicy maxAttempts(int attempts) {
        check("maxAttempts", attempts, 0, 1000);
        return backoff(attempts, policy.initialDelay(), policy.multiplier(), policy.maxDelay());
    }

    /**
     * How delays grow; each is drawn uniformly below its ceiling.
     *
     * @param initialDelay the first ceiling, at most {@code maxDelay}
     * @param multiplier of the ceiling for each retry, 1 to 100
     * @param maxDelay the highest ceiling, at most 24 h
     * @return a new policy
     */
    public LocalPolicy delays(Duration initialDelay, double multiplier, Duration maxDelay) {
        check("multiplier", multiplier, 1, 100);
        check("maxDelay", maxDelay.toSeconds(), 0, 86_400);
        check("initialDelay", initialDelay.toNanos(), 0, maxDelay.toNanos());
        int attempts = policy.maxAttempts();
        return backoff(attempts, Nanos.of(initialDelay), multiplier, Nanos.of(maxDelay));
    }

    /**
     * How many retries may be made.
     *
     * @param ratio for each first attempt, 0 to 10
     * @param perSecond whatever the first attempts, 0 to 1,000,000
     * @return a new policy
     */
    public LocalPolicy budget(double ratio, double perSecond) {
        check("ratio", ratio, 0, 10);
        check("perSecond", perSecond, 0, 1e6);
        long ppm = Math.round(ratio * 1e6);
        long micros = (long) (perSecond * 1e6);
        return with(ppm, policy.openFor(), policy.openMax()).floor(micros);
    }

    /**
     * How long the breaker stays open: the first time, and at most.
     *
     * @param openFor above 0
     * @param openMax at least {@code openFor}, at most 24 h
     * @return a new policy
     */
    public LocalPolicy open(Duration openFor, Duration openMax) {
        check("openMax", openMax.toSeconds(), 0, 86_400);
        check("openFor", openFor.toNanos(), 1, openMax.toNanos());
        return with(policy.budgetRatioPpm(), Nanos.of(openFor), Nanos.of(openMax));
    }

    Policy policy() {
        return policy;
    }

    /** For tests: nothing is waited for, and no retry is one too many. */
    static Policy testing() {
        LocalPolicy eager = standard().delays(Duration.ZERO, 1, Duration.ZERO);
        return eager.floor(1_000_000_000_000L).policy();
    }

    private LocalPolicy floor(long micros) {
        return new LocalPolicy(policy.withFloor(micros));
    }

    private LocalPolicy backoff(int attempts, long initial, double multiplier, long max) {
        return new LocalPolicy(
                new Policy(
                        attempts,
                        policy.strategy(),
                        initial,
                        multiplier,
                        max,
                        policy.minDelay(),
                        policy.jitter(),
                        policy.jitterProportion(),
                        policy.minAttemptTime(),
                        policy.pushbackMax(),
                        policy.pushbackSpread(),
                        policy.budgetRatioPpm(),
                        policy.budgetTtl(),
                        policy.floorMicrosPerSecond(),
                        policy.openFor(),
                        policy.openMultiplier(),
                        policy.openMax(),
                        policy.slowAfter()));
    }

    private LocalPolicy with(long ratioPpm, long openFor, long openMax) {
        return new LocalPolicy(
                new Policy(
                        policy.maxAttempts(),
                        policy.strategy(),
                        policy.initialDelay(),
                        policy.multiplier(),
                        policy.maxDelay(),
                        policy.minDelay(),
                        policy.jitter(),
                        policy.jitterProportion(),
                        policy.minAttemptTime(),
                        policy.pushbackMax(),
                        policy.pushbackSpread(),
                        ratioPpm,
                        policy.budgetTtl(),
                        policy.floorMicrosPerSecond(),
                        openFor,
                        policy.openMultiplier(),
                        openMax,
                        policy.slowAfter()));
    }

    private static void check(String name, double value, double low, double high) {
        if (!(value >= low && value <= high)) {
            throw new IllegalArgumentException(
                    name + " " + value + ": it must be " + low + " to " + high);
        }
    }
}
