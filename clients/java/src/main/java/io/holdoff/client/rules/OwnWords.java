package io.holdoff.client.rules;

import io.holdoff.client.DenialReason;
import io.holdoff.client.Outcome;
import java.util.Optional;

/**
 * What needs nobody's answer: it follows from what the caller said about the call and from how
 * the attempt before ended. So a wrong answer cannot make a caller do harm, either.
 */
public final class OwnWords {
    private OwnWords() {}

    /** Null: there is no deadline. */
    public static Optional<DenialReason> time(Long left) {
        boolean isOver = left != null && left == 0;
        return isOver ? Optional.of(DenialReason.DEADLINE) : Optional.empty();
    }

    /**
     * Whether there may be an attempt after one that ended so. Empty: ask.
     *
     * @param maxAttempts 0: unlimited
     */
    public static Optional<DenialReason> retry(
            long attempt, long maxAttempts, boolean isRepeatable, Outcome before) {
        if (before.isRetryForbidden()) {
            return Optional.of(DenialReason.PUSHBACK);
        }
        switch (before.kind()) {
            case SUCCESS, REJECTED, IGNORED, CANCELLED -> {
                return Optional.of(DenialReason.NOT_RETRYABLE);
            }
            case FAILURE, TIMEOUT, THROTTLED -> {}
            case NOT_SENT -> {
                return limits(attempt, maxAttempts, before);
            }
        }
        Optional<DenialReason> limited = limits(attempt, maxAttempts, before);
        if (limited.isEmpty() && !isRepeatable) {
            return Optional.of(DenialReason.RETRY_UNSAFE);
        }
        return limited;
    }

    private static Optional<DenialReason> limits(long attempt, long maxAttempts, Outcome before) {
        if (before.isRetriedBelow()) {
            return Optional.of(DenialReason.RETRIED_BELOW);
        }
        if (maxAttempts != 0 && attempt > maxAttempts) {
            return Optional.of(DenialReason.ATTEMPTS_EXHAUSTED);
        }
        return Optional.empty();
    }
}
