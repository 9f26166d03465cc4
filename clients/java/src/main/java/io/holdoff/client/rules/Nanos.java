package io.holdoff.client.rules;

import java.time.Duration;

/**
 * Spans and instants as unsigned 64-bit nanoseconds. Sums saturate at 2^64 - 1, differences at 0.
 *
 * <p>A {@code long} and not a {@link Duration}, since the arithmetic of a rule has to come out the
 * same in every language, to the last digit.
 */
public final class Nanos {
    /** 2^64 - 1, about 584 years. */
    public static final long MAX = -1L;

    public static final long MILLISECOND = 1_000_000L;
    public static final long SECOND = 1_000_000_000L;
    public static final long DAY = 86_400 * SECOND;

    private static final double TWO_TO_63 = 0x1p63;
    private static final double TWO_TO_64 = 0x1p64;

    private Nanos() {}

    public static long add(long a, long b) {
        long sum = a + b;
        return Long.compareUnsigned(sum, a) < 0 ? MAX : sum;
    }

    public static long subtract(long a, long b) {
        return less(a, b) ? 0 : a - b;
    }

    public static long multiply(long a, long times) {
        boolean fits = times == 0 || !less(Long.divideUnsigned(MAX, times), a);
        return fits ? a * times : MAX;
    }

    public static long min(long a, long b) {
        return less(b, a) ? b : a;
    }

    public static long max(long a, long b) {
        return less(a, b) ? b : a;
    }

    public static boolean less(long a, long b) {
        return Long.compareUnsigned(a, b) < 0;
    }

    /** The nearest double; ties go to even. */
    public static double toDouble(long nanos) {
        if (nanos >= 0) {
            return nanos;
        }
        // The lowest bit sticks, so that the rounding sees what was shifted out.
        return (double) (nanos >>> 1 | nanos & 1) * 2;
    }

    /** Truncates. What is no number and what is negative is 0, 2^64 and above is {@link #MAX}. */
    public static long ofDouble(double value) {
        if (!(value > 0)) {
            return 0;
        }
        if (value >= TWO_TO_64) {
            return MAX;
        }
        return value < TWO_TO_63 ? (long) value : (long) (value - TWO_TO_63) ^ Long.MIN_VALUE;
    }

    /** The truncated product, with {@code unit} clamped to [0, 1]. */
    public static long part(long nanos, double unit) {
        return ofDouble(toDouble(nanos) * Math.max(0, Math.min(1, unit)));
    }

    /** Negative spans are 0. */
    public static long of(Duration span) {
        return span.isNegative() ? 0 : of(span.getSeconds(), span.getNano());
    }

    /** Of whole seconds, not negative, and the nanoseconds beyond them. */
    public static long of(long seconds, int nanos) {
        return add(multiply(seconds, SECOND), nanos);
    }

    public static Duration toDuration(long nanos) {
        return Duration.ofSeconds(
                Long.divideUnsigned(nanos, SECOND), Long.remainderUnsigned(nanos, SECOND));
    }
}
