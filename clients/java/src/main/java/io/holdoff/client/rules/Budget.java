package io.holdoff.client.rules;

import java.math.BigInteger;
import java.util.Arrays;

/**
 * How many retries may be made: a share of the first attempts plus a floor. Over each window
 * {@code (t - ttl, t]}, a grant at t included:
 *
 * <pre>
 * retries &lt;= floor(ratio * first attempts + floor a second * ttl)
 * </pre>
 *
 * <p>The window is a ring of ten buckets and the part of an eleventh, which lies partly outside:
 * its retries count and its first attempts do not, so that rounding goes against the grant.
 * Integers throughout: a ratio of 0.2 allows one retry for five first attempts, and none for four.
 */
public final class Budget {
    private static final int BUCKETS = 10;
    private static final int RING = BUCKETS + 1;
    private static final long MICROS = 1_000_000;

    private final long[] firstAttempts = new long[RING];
    private final long[] retries = new long[RING];

    /** Length of a bucket; 0 before the first use. */
    private long bucket;

    /** The newest bucket, counted from the origin of time. */
    private long newest;

    /** What the window holds. */
    public record Level(long firstAttempts, long retries, long allowed) {
        public boolean hasRoom() {
            return retries < allowed;
        }
    }

    /** Counts first attempts. */
    public void deposit(Policy policy, long count, long now) {
        turnTo(policy, now);
        firstAttempts[slot(newest)] += count;
    }

    /** Takes the token of a retry. */
    public void withdraw(Policy policy, long now) {
        turnTo(policy, now);
        retries[slot(newest)]++;
    }

    /** Gives back a token that was taken then, unless that has left the window. */
    public void refund(Policy policy, long takenAt, long now) {
        turnTo(policy, now);
        long index = Long.divideUnsigned(takenAt, bucket);
        if (index <= newest && newest - index < RING) {
            retries[slot(index)] = Math.max(0, retries[slot(index)] - 1);
        }
    }

    /** What the window holds now. */
    public Level level(Policy policy, long now) {
        turnTo(policy, now);
        long first = 0;
        long again = 0;
        for (long index = Math.max(0, newest - BUCKETS); index <= newest; index++) {
            again += retries[slot(index)];
            if (newest - index < BUCKETS) {
                first += firstAttempts[slot(index)];
            }
        }
        return new Level(first, again, allowed(policy, first));
    }

    private static long allowed(Policy policy, long first) {
        BigInteger share = BigInteger.valueOf(policy.budgetRatioPpm()).multiply(BigInteger.valueOf(first));
        BigInteger micros = share.add(floorMicros(policy, policy.budgetTtl()));
        return micros.divide(BigInteger.valueOf(MICROS)).min(BigInteger.valueOf(Long.MAX_VALUE)).longValue();
    }

    /** What the floor allows in a span, in millionths of a retry. */
    private static BigInteger floorMicros(Policy policy, long span) {
        return unsigned(policy.floorMicrosPerSecond())
                .multiply(unsigned(span))
                .divide(BigInteger.valueOf(Nanos.SECOND));
    }

    private static BigInteger unsigned(long value) {
        return new BigInteger(Long.toUnsignedString(value));
    }

    /** Forgets what has left the window. Time that goes backwards forgets nothing. */
    private void turnTo(Policy policy, long now) {
        long length = Math.max(1, divideUp(policy.budgetTtl()));
        if (length != bucket) {
            changeLength(policy, length, now);
        }
        long index = Long.divideUnsigned(now, bucket);
        long passed = Math.min(Math.max(0, index - newest), RING);
        for (long back = 0; back < passed; back++) {
            firstAttempts[slot(index - back)] = 0;
            retries[slot(index - back)] = 0;
        }
        newest = Math.max(newest, index);
    }

    /**
     * A new ttl. What is known goes into the new buckets, rounded against the grant: retries as if
     * they had come at the end of their old bucket, first attempts as if at its begin. What a
     * longer window adds to the floor counts as spent at first.
     */
    private void changeLength(Policy policy, long length, long now) {
        long[] oldFirst = firstAttempts.clone();
        long[] oldRetries = retries.clone();
        long oldLength = bucket;
        long last = newest;
        bucket = length;
        newest = Long.divideUnsigned(now, length);
        Arrays.fill(firstAttempts, 0);
        Arrays.fill(retries, 0);
        if (oldLength == 0) {
            return;
        }
        for (long index = Math.max(0, last - BUCKETS); index <= last; index++) {
            long begin = Long.divideUnsigned(Nanos.min(Nanos.multiply(index, oldLength), now), length);
            long after = Nanos.subtract(Nanos.multiply(index + 1, oldLength), 1);
            long end = Long.divideUnsigned(Nanos.min(after, now), length);
            if (newest - begin < RING) {
                firstAttempts[slot(begin)] += oldFirst[slot(index)];
            }
            if (newest - end < RING) {
                retries[slot(end)] += oldRetries[slot(index)];
            }
        }
        long longer = Nanos.multiply(Nanos.subtract(length, oldLength), BUCKETS);
        BigInteger[] unknown = floorMicros(policy, longer).divideAndRemainder(BigInteger.valueOf(MICROS));
        retries[slot(newest)] += unknown[0].longValue() + unknown[1].signum();
    }

    private static long divideUp(long ttl) {
        long whole = Long.divideUnsigned(ttl, BUCKETS);
        return Long.remainderUnsigned(ttl, BUCKETS) == 0 ? whole : whole + 1;
    }

    private static int slot(long index) {
        return (int) (index % RING);
    }
}
