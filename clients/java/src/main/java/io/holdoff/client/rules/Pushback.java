package io.holdoff.client.rules;

import java.util.OptionalLong;

/**
 * What a dependency says about when to come back.
 *
 * <p>The same number means different things in the two headers. HTTP's {@code Retry-After} (RFC
 * 9110, 10.2.3) is whole seconds or a date, and anything else is no instruction. gRPC's {@code
 * grpc-retry-pushback-ms} (gRFC A6) is whole milliseconds, and anything else says "do not retry".
 */
public final class Pushback {
    private Pushback() {}

    /**
     * Reads {@code Retry-After}. Empty: it is no instruction.
     *
     * @param date the response's own {@code Date}, from which a date is counted where it can be
     *     read, or null
     */
    public static OptionalLong ofHttp(String value, String date, long wallUnixSeconds) {
        String text = trim(value);
        if (isDigits(text)) {
            return OptionalLong.of(seconds(text));
        }
        OptionalLong then = HttpDate.parse(text, wallUnixSeconds);
        if (then.isEmpty()) {
            return then;
        }
        OptionalLong said =
                date == null ? OptionalLong.empty() : HttpDate.parse(trim(date), wallUnixSeconds);
        long wait = then.getAsLong() - said.orElse(wallUnixSeconds);
        return OptionalLong.of(Nanos.of(Math.max(0, wait), 0));
    }

    /**
     * Reads {@code grpc-retry-pushback-ms}: decimal, no sign, no leading zero, at most 2^31 - 1.
     * Empty: do not retry.
     */
    public static OptionalLong ofGrpc(String value) {
        boolean isCanonical = value.equals("0") || !value.startsWith("0");
        if (!isCanonical || !isDigits(value) || value.length() > 10) {
            return OptionalLong.empty();
        }
        long millis = Long.parseLong(value);
        return millis > Integer.MAX_VALUE
                ? OptionalLong.empty()
                : OptionalLong.of(millis * Nanos.MILLISECOND);
    }

    /**
     * A pushback is a floor. Where it binds it is spread upwards by {@code unit} of the policy's
     * spread, so that callers that were told the same time do not come back together.
     */
    static long floor(Policy policy, long delay, long pushback, double unit) {
        boolean binds = pushback != 0 && !Nanos.less(pushback, delay);
        return binds ? Nanos.add(pushback, Nanos.part(policy.pushbackSpread(), unit)) : delay;
    }

    private static long seconds(String digits) {
        try {
            return Nanos.multiply(Long.parseUnsignedLong(digits), Nanos.SECOND);
        } catch (NumberFormatException tooLong) {
            return Nanos.MAX;
        }
    }

    private static boolean isDigits(String text) {
        return !text.isEmpty() && text.chars().allMatch(c -> c >= '0' && c <= '9');
    }

    private static String trim(String text) {
        int begin = 0;
        int end = text.length();
        while (begin < end && isBlank(text.charAt(begin))) {
            begin++;
        }
        while (begin < end && isBlank(text.charAt(end - 1))) {
            end--;
        }
        return text.substring(begin, end);
    }

    private static boolean isBlank(char c) {
        return c == ' ' || c == '\t';
    }
}
