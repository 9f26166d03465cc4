package io.holdoff.client.rules;

import io.holdoff.client.Outcome;
import io.holdoff.client.OutcomeKind;
import java.util.List;
import java.util.OptionalLong;

/** What an HTTP response says about an attempt. */
public final class HttpRules {
    private HttpRules() {}

    /**
     * By status, with {@code Retry-After} as a pushback on 408, 429 and from 500 on.
     *
     * @param retryAfter all values of the header, in order
     * @param dates all values of {@code Date}, in order
     */
    public static Outcome classify(
            int status, List<String> retryAfter, List<String> dates, long wallUnixSeconds) {
        Outcome outcome = Outcome.of(kind(status)).statusCode(status);
        boolean mayPushBack = status == 408 || status == 429 || status >= 500;
        // Two values contradict each other, so neither is an instruction.
        if (!mayPushBack || retryAfter.size() != 1) {
            return outcome;
        }
        String date = dates.isEmpty() ? null : dates.get(0);
        OptionalLong wait = Pushback.ofHttp(retryAfter.get(0), date, wallUnixSeconds);
        return wait.isPresent() ? outcome.pushback(Nanos.toDuration(wait.getAsLong())) : outcome;
    }

    private static OutcomeKind kind(int status) {
        return switch (status) {
            case 408, 504 -> OutcomeKind.TIMEOUT;
            case 421, 425 -> OutcomeKind.FAILURE;
            case 429 -> OutcomeKind.THROTTLED;
            case 501, 505 -> OutcomeKind.REJECTED;
            default -> byClass(status);
        };
    }

    private static OutcomeKind byClass(int status) {
        if (status < 200) {
            return OutcomeKind.IGNORED;
        }
        if (status < 400) {
            return OutcomeKind.SUCCESS;
        }
        return status < 500 ? OutcomeKind.REJECTED : OutcomeKind.FAILURE;
    }
}
