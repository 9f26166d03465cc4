package io.holdoff.client.link;

/**
 * The state that an attempt was made on, without asking.
 *
 * @param epoch of that state
 * @param slowAfter a call that takes so long is slow; 0: none is
 */
public record OnState(long epoch, long slowAfter) {
    /** Nothing was heard of. */
    public static final OnState UNKNOWN = new OnState(0, 0);
}
