package io.holdoff.client.rules;

import io.holdoff.client.rules.Policy.Jitter;

/**
 * The delay before retry n (n = 1 before attempt 2).
 *
 * <pre>
 * fixed        initial
 * linear       initial * n
 * exponential  initial * multiplier ^ (n - 1)     100 ms by 2: 100, 200, 400, 800 ms, ...
 * </pre>
 *
 * <p>Never negative, never above the longest delay, for every n up to 2^32 - 1.
 */
public final class Backoff {
    private Backoff() {}

    /** The longest that the delay before this retry can be, jitter aside. */
    public static long ceiling(Policy policy, long retry) {
        long n = Math.max(1, retry);
        long grown =
                switch (policy.strategy()) {
                    case FIXED -> policy.initialDelay();
                    case LINEAR -> Nanos.multiply(policy.initialDelay(), n);
                    case EXPONENTIAL ->
                            Nanos.ofDouble(
                                    Nanos.toDouble(policy.initialDelay())
                                            * power(policy.multiplier(), n - 1));
                };
        return Nanos.min(grown, policy.maxDelay());
    }

    /** With {@code sample} uniform in [0, 1). */
    public static long delay(Policy policy, long retry, long previousDelay, double sample) {
        long most = policy.maxDelay();
        long ceiling = ceiling(policy, retry);
        double proportion = policy.jitterProportion();
        Jitter jitter = policy.jitter();
        long low =
                switch (jitter) {
                    case NONE -> ceiling;
                    case FULL -> 0;
                    case EQUAL -> ceiling >>> 1;
                    case PROPORTIONAL -> Nanos.part(ceiling, 1 - proportion);
                    case DECORRELATED -> Nanos.min(policy.initialDelay(), most);
                };
        long high =
                switch (jitter) {
                    case NONE, FULL, EQUAL -> ceiling;
                    case PROPORTIONAL ->
                            Nanos.min(
                                    Nanos.ofDouble(Nanos.toDouble(ceiling) * (1 + proportion)),
                                    most);
                    case DECORRELATED -> {
                        long before = Nanos.max(previousDelay, policy.initialDelay());
                        yield Nanos.min(Nanos.multiply(before, 3), most);
                    }
                };
        // Before the draw, so that no fleet stands on an end of the range.
        long from = Nanos.max(low, Nanos.min(policy.minDelay(), most));
        long to = Nanos.max(high, from);
        return Nanos.min(Nanos.add(from, Nanos.part(Nanos.subtract(to, from), sample)), most);
    }

    /** By squaring, in this order: it matters in the last digit. */
    private static double power(double base, long exponent) {
        double product = 1;
        double square = base;
        for (long rest = exponent; rest > 0; rest /= 2) {
            if (rest % 2 == 1) {
                product *= square;
            }
            square *= square;
        }
        return product;
    }
}
