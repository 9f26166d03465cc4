package io.holdoff.client;

import io.holdoff.client.link.Answer;
import io.holdoff.client.rules.LocalRecord;
import io.holdoff.client.rules.Nanos;

/**
 * What was granted, by whomever. Spans are nanoseconds.
 *
 * @param lives from the end of the delay; null: it does not end
 * @param suggestedTimeout null: none is known
 * @param epoch in which the service granted it; null: it did not
 */
record Terms(
        Made made,
        long delay,
        Long lives,
        boolean isProbe,
        boolean confirm,
        Long suggestedTimeout,
        Long epoch) {

    /** A confirmation that changes nothing. */
    static final Terms KEPT = new Terms(null, 0, null, false, false, null, null);

    /** A lease of this process itself. */
    private static final Long OWN_LEASE = 5_000_000_000L;

    /** So much of the delay has passed already. */
    Terms less(long passed) {
        long left = Nanos.subtract(delay, passed);
        return new Terms(made, left, lives, isProbe, confirm, suggestedTimeout, epoch);
    }

    static Terms of(Answer.Grant grant) {
        return new Terms(
                new Made.Fleet(grant.permit()),
                grant.delay(),
                grant.permitTtl(),
                grant.isProbe(),
                grant.confirm(),
                grant.attemptTimeout(),
                grant.epoch());
    }

    static Terms of(LocalRecord.Granted granted, long delay) {
        Made made = new Made.Local(granted.permit(), 0);
        Long lives = granted.isProbe() ? OWN_LEASE : null;
        return new Terms(made, delay, lives, granted.isProbe(), granted.confirm(), null, null);
    }
}
