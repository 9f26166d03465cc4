package io.holdoff.client;

import io.holdoff.client.link.Answer;
import io.holdoff.client.rules.LocalRecord;
import io.holdoff.client.rules.Nanos;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;

/**
 * The answer no.
 *
 * @param reason why
 * @param by who said it
 * @param retryAfter when asking again makes sense; empty: the answer is final
 * @param detail one sentence with the numbers, for people; may be empty
 */
public record Denied(
        DenialReason reason, DeniedBy by, Optional<Duration> retryAfter, String detail) {

    /** Texts of the service are cut to so many characters. */
    private static final int DETAIL_LENGTH = 1024;

    /**
     * Cuts a long detail.
     *
     * @param reason why
     * @param by who said it
     * @param retryAfter when asking again makes sense
     * @param detail for people
     */
    public Denied {
        Objects.requireNonNull(reason, "reason");
        Objects.requireNonNull(by, "by");
        Objects.requireNonNull(retryAfter, "retryAfter");
        detail = detail.length() > DETAIL_LENGTH ? detail.substring(0, DETAIL_LENGTH) : detail;
    }

    static Denied of(DeniedBy by, DenialReason reason, String detail) {
        return new Denied(reason, by, Optional.empty(), detail);
    }

    static Denied of(Answer.Denial denial) {
        Optional<Duration> after = span(denial.retryAfter());
        return new Denied(denial.reason(), DeniedBy.FLEET, after, denial.detail());
    }

    static Denied of(LocalRecord.Refused refused) {
        return new Denied(refused.reason(), DeniedBy.LOCAL, span(refused.retryAfter()), "");
    }

    private static Optional<Duration> span(Long nanos) {
        return nanos == null ? Optional.empty() : Optional.of(Nanos.toDuration(nanos));
    }

    static Denied byCaller(DenialReason reason, String detail) {
        return of(DeniedBy.CALLER, reason, detail);
    }

    /**
     * For people.
     *
     * @return the reason in words, and the detail
     */
    @Override
    public String toString() {
        return detail.isEmpty() ? reason.words() : reason.words() + ": " + detail;
    }
}
