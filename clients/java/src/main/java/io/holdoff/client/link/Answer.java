package io.holdoff.client.link;

import com.google.protobuf.ByteString;
import io.holdoff.client.DenialReason;

/** What the service decided, as read by {@link Wire}. Spans are unsigned nanoseconds. */
public sealed interface Answer {
    /**
     * Yes, after {@code delay}.
     *
     * @param permitTtl from the end of the delay; null: not said
     * @param attemptTimeout null: none is known
     * @param epoch in which it was granted
     */
    record Grant(
            long delay,
            ByteString permit,
            Long permitTtl,
            boolean isProbe,
            boolean confirm,
            Long attemptTimeout,
            long epoch)
            implements Answer {}

    /**
     * No.
     *
     * @param retryAfter null: final
     */
    record Denial(DenialReason reason, Long retryAfter, String detail) implements Answer {}

    /** It decided nothing. */
    record None(NoAnswer why) implements Answer {}
}
