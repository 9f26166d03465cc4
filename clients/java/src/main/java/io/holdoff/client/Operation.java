package io.holdoff.client;

/**
 * One attempt of a call.
 *
 * @param <T> what it returns
 * @param <E> what it throws; inferred as {@link RuntimeException} where it throws nothing checked
 */
@FunctionalInterface
public interface Operation<T, E extends Exception> {
    /**
     * Makes the attempt. It may be called several times, on the thread of the caller, which is
     * interrupted where the attempt has a limit and takes longer.
     *
     * @param attempt which one it is, and how long it may take
     * @return the result
     * @throws E what is thrown to the caller where there is no further attempt
     */
    T run(Attempt attempt) throws E;
}
