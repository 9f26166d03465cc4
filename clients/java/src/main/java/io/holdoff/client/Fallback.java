package io.holdoff.client;

/**
 * What takes the place of a call that was given up.
 *
 * @param <T> what it returns
 * @param <E> what it throws
 */
@FunctionalInterface
public interface Fallback<T, E extends Exception> {
    /**
     * Makes the result.
     *
     * @param why the call's last real error, or a {@link DeniedException}; {@link
     *     Holdoff#whyStopped} has the reason
     * @return the result
     * @throws E there is none
     */
    T get(Exception why) throws E;
}
