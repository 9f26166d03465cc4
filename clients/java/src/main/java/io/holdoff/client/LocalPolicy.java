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
        return new LocalPolicy(policy.with(changed -> changed.maxAttempts = attempts));
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
        return new LocalPolicy(
                policy.with(
                        changed -> {
                            changed.initialDelay = Nanos.of(initialDelay);
                            changed.multiplier = multiplier;
                            changed.maxDelay = Nanos.of(maxDelay);
                        }));
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
        return new LocalPolicy(
                policy.with(
                        changed -> {
                            changed.budgetRatioPpm = Math.round(ratio * 1e6);
                            changed.floorMicrosPerSecond = (long) (perSecond * 1e6);
                        }));
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
        return new LocalPolicy(
                policy.with(
                        changed -> {
                            changed.openFor = Nanos.of(openFor);
                            changed.openMax = Nanos.of(openMax);
                        }));
    }

    Policy policy() {
        return policy;
    }

    /** For tests: nothing is waited for, and no retry is one too many. */
    static Policy testing() {
        LocalPolicy eager = standard().delays(Duration.ZERO, 1, Duration.ZERO);
        return eager.policy().with(changed -> changed.floorMicrosPerSecond = 1_000_000_000_000L);
    }

    private static void check(String name, double value, double low, double high) {
        if (!(value >= low && value <= high)) {
            throw new IllegalArgumentException(
                    name + " " + value + ": it must be " + low + " to " + high);
        }
    }
}
