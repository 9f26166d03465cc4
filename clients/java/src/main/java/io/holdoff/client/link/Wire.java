package io.holdoff.client.link;

import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import io.holdoff.client.DenialReason;
import io.holdoff.client.Outcome;
import io.holdoff.client.OutcomeKind;
import io.holdoff.client.Priority;
import io.holdoff.client.Safety;
import io.holdoff.client.rules.Nanos;
import io.holdoff.client.v1.AcquireResponse;
import io.holdoff.client.v1.Denial;
import io.holdoff.client.v1.Grant;
import io.holdoff.client.v1.PermitResult;
import io.holdoff.client.v1.ReportEntry;

/**
 * Between the client's words and the wire's. Reading is strict: an answer that says something
 * unknown, or leaves out what it must say, is no decision. It is never mended by a default, since
 * protobuf's default of a delay is "now".
 */
public final class Wire {
    /** A {@code google.protobuf.Duration} is at most so long. */
    private static final long LONGEST_SECONDS = 315_576_000_000L;

    /** A permit takes about 60 bytes; callers keep them, so that what is no permit is not kept. */
    static final int PERMIT_BYTES_MAX = 1024;

    private static final int STATES = 6;
    private static final int REASONS = 19;

    private Wire() {}

    /** A duration that is none. */
    static final class OddDuration extends Exception {
        private static final long serialVersionUID = 1;

        OddDuration() {
            super("a duration is negative or out of range", null, false, false);
        }
    }

    public static Answer read(AcquireResponse response) {
        int state = response.getStateValue();
        if (state < 0 || state > STATES) {
            return unreadable("the state of the breaker is unknown to this client");
        }
        try {
            return switch (response.getVerdictCase()) {
                case GRANT -> readGrant(response.getGrant(), response.getEpoch());
                case DENIAL -> readDenial(response.getDenial());
                case VERDICT_NOT_SET -> unreadable("the answer has no verdict");
            };
        } catch (OddDuration odd) {
            return unreadable(odd.getMessage());
        }
    }

    private static Answer readGrant(Grant grant, long epoch) throws OddDuration {
        if (!grant.hasDelay()) {
            String why = "the grant does not say when";
            return new Answer.None(new NoAnswer(NoAnswer.Kind.NO_DELAY, why));
        }
        long delay = readDuration(grant.getDelay());
        if (grant.getPermit().size() > PERMIT_BYTES_MAX) {
            return unreadable("the permit is longer than any permit");
        }
        // A life of nothing cannot be meant: it would end before the attempt begins.
        Long ttl = grant.hasPermitTtl() ? orNull(readDuration(grant.getPermitTtl())) : null;
        Long timeout =
                grant.hasAttemptTimeout() ? orNull(readDuration(grant.getAttemptTimeout())) : null;
        // A copy: the original may be a part of the whole message and would keep it alive.
        ByteString permit = ByteString.copyFrom(grant.getPermit().toByteArray());
        return new Answer.Grant(
                delay, permit, ttl, grant.getProbe(), grant.getConfirm(), timeout, epoch);
    }

    private static Answer readDenial(Denial denial) throws OddDuration {
        int reason = denial.getReasonValue();
        if (reason < 1 || reason > REASONS) {
            return unreadable("the reason of the denial is unknown to this client");
        }
        Long wait = denial.hasRetryAfter() ? (Long) readDuration(denial.getRetryAfter()) : null;
        return new Answer.Denial(DenialReason.values()[reason - 1], wait, denial.getDetail());
    }

    private static Answer unreadable(String why) {
        return new Answer.None(new NoAnswer(NoAnswer.Kind.UNREADABLE, why));
    }

    private static Long orNull(long nanos) {
        return nanos == 0 ? null : nanos;
    }

    /** Saturates at 2^64 - 1 ns. */
    static long readDuration(Duration duration) throws OddDuration {
        long seconds = duration.getSeconds();
        int nanos = duration.getNanos();
        boolean inRange =
                seconds >= 0 && seconds <= LONGEST_SECONDS && nanos >= 0 && nanos < Nanos.SECOND;
        if (!inRange) {
            throw new OddDuration();
        }
        return Nanos.of(seconds, nanos);
    }

    public static Duration writeNanos(long nanos) {
        return Duration.newBuilder()
                .setSeconds(Long.divideUnsigned(nanos, Nanos.SECOND))
                .setNanos((int) Long.remainderUnsigned(nanos, Nanos.SECOND))
                .build();
    }

    public static Duration write(java.time.Duration span) {
        if (span.isNegative()) {
            return Duration.getDefaultInstance();
        }
        if (span.getSeconds() >= LONGEST_SECONDS) {
            return Duration.newBuilder().setSeconds(LONGEST_SECONDS).build();
        }
        return Duration.newBuilder()
                .setSeconds(span.getSeconds())
                .setNanos(span.getNano())
                .build();
    }

    public static io.holdoff.client.v1.Outcome write(Outcome outcome) {
        var written =
                io.holdoff.client.v1.Outcome.newBuilder()
                        .setKind(write(outcome.kind()))
                        .setDoNotRetry(outcome.isRetryForbidden())
                        .setRetriedBelow(outcome.isRetriedBelow())
                        .setStatusCode(outcome.statusCode())
                        .setPushbackRestartsBackoff(outcome.isBackoffRestarted());
        // Longer latencies are refused; so long an attempt is merely as long as can be said.
        outcome.latency()
                .ifPresent(took -> written.setLatency(writeNanos(Tallies.latency(took))));
        outcome.pushback().ifPresent(wait -> written.setPushback(write(wait)));
        return written.build();
    }

    private static io.holdoff.client.v1.OutcomeKind write(OutcomeKind kind) {
        return switch (kind) {
            case SUCCESS -> io.holdoff.client.v1.OutcomeKind.OUTCOME_KIND_SUCCESS;
            case FAILURE -> io.holdoff.client.v1.OutcomeKind.OUTCOME_KIND_FAILURE;
            case TIMEOUT -> io.holdoff.client.v1.OutcomeKind.OUTCOME_KIND_TIMEOUT;
            case NOT_SENT -> io.holdoff.client.v1.OutcomeKind.OUTCOME_KIND_NOT_SENT;
            case THROTTLED -> io.holdoff.client.v1.OutcomeKind.OUTCOME_KIND_THROTTLED;
            case REJECTED -> io.holdoff.client.v1.OutcomeKind.OUTCOME_KIND_REJECTED;
            case IGNORED -> io.holdoff.client.v1.OutcomeKind.OUTCOME_KIND_IGNORED;
            case CANCELLED -> io.holdoff.client.v1.OutcomeKind.OUTCOME_KIND_CANCELLED;
        };
    }

    public static io.holdoff.client.v1.Safety write(Safety safety) {
        return switch (safety) {
            case UNSAFE -> io.holdoff.client.v1.Safety.SAFETY_UNSAFE;
            case IDEMPOTENT -> io.holdoff.client.v1.Safety.SAFETY_IDEMPOTENT;
            case KEYED -> io.holdoff.client.v1.Safety.SAFETY_KEYED;
        };
    }

    public static io.holdoff.client.v1.Priority write(Priority priority) {
        return switch (priority) {
            case LOW -> io.holdoff.client.v1.Priority.PRIORITY_LOW;
            case NORMAL -> io.holdoff.client.v1.Priority.PRIORITY_NORMAL;
            case HIGH -> io.holdoff.client.v1.Priority.PRIORITY_HIGH;
        };
    }

    static ReportEntry resultOf(ByteString permit, Outcome outcome) {
        var result = PermitResult.newBuilder().setPermit(permit).setOutcome(write(outcome));
        return ReportEntry.newBuilder().setResult(result).build();
    }
}
