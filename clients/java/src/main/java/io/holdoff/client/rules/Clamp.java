package io.holdoff.client.rules;

import io.holdoff.client.DenialReason;
import java.util.OptionalLong;

/** Bounds on what the service says: it may be wrong, or somebody else's. */
public final class Clamp {
    /** No delay that the service chose is waited for longer. */
    private static final long DELAY_MAX = 600 * Nanos.SECOND;

    private static final long ASK_AGAIN_MIN = 10 * Nanos.MILLISECOND;

    /** A probe is given up so long before its lease ends, or a tenth of it if that is more. */
    private static final long MARGIN_MIN = 250 * Nanos.MILLISECOND;

    /** So many clients ask at once. */
    public static final long AT_ONCE = 5_000;

    private Clamp() {}

    /** Whether an attempt after this delay can begin before the deadline (null: there is none). */
    public static boolean fits(long delay, Long timeLeft) {
        return timeLeft == null || Nanos.less(delay, timeLeft);
    }

    public static long delay(long delay) {
        return Nanos.min(delay, DELAY_MAX);
    }

    /**
     * How long a probe with such a lease may take, from the moment of asking. A lease shorter than
     * its margin must still be usable, or nothing would recover.
     */
    public static long useOfLease(long lease) {
        long tenth = Long.divideUnsigned(lease, 10);
        return lease - Nanos.min(Nanos.max(MARGIN_MIN, tenth), lease >>> 1);
    }

    /**
     * How long to wait before the same question is asked again. Empty: the denial stands.
     *
     * @param retryAfter null: it is final
     * @param timeLeft null: there is no deadline
     */
    public static OptionalLong askAgain(DenialReason reason, Long retryAfter, Long timeLeft) {
        // The same outcome gets the same answer however late it is told.
        if (retryAfter == null || reason == DenialReason.PUSHBACK_TOO_LONG) {
            return OptionalLong.empty();
        }
        if (!fits(retryAfter, timeLeft)) {
            return OptionalLong.empty();
        }
        return OptionalLong.of(Nanos.max(ASK_AGAIN_MIN, Nanos.min(retryAfter, DELAY_MAX)));
    }

    /**
     * How long the first question after a failure on pushed state is held back: uniform up to 10 us
     * for each client above 5,000, a second and the time left at most.
     *
     * @param timeLeft null: there is no deadline
     */
    public static long heldBack(long knownClients, Long timeLeft, double sample) {
        long more = Math.max(0, knownClients - AT_ONCE);
        long most = Nanos.min(more * 10_000, Nanos.SECOND);
        return Nanos.part(timeLeft == null ? most : Nanos.min(most, timeLeft), sample);
    }

    /** How long the service is not asked after three questions in a row without an answer. */
    public static long shut(long failedTrials, double sample) {
        long factor = 1L << Math.min(failedTrials, 5);
        long low = Nanos.min(factor * Nanos.SECOND, 6 * Nanos.SECOND);
        long high = Nanos.min(factor * 5 * Nanos.SECOND, 30 * Nanos.SECOND);
        return low + Nanos.part(high - low, sample);
    }
}
