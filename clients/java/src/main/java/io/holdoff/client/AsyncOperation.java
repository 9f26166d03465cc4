package io.holdoff.client;

import java.util.concurrent.CompletionStage;

/**
 * One attempt of a call that blocks no thread.
 *
 * @param <T> what it returns
 */
@FunctionalInterface
public interface AsyncOperation<T> {
    /**
     * Begins the attempt. It may be called several times. Where the attempt has a limit and takes
     * longer, the future of the stage is cancelled.
     *
     * @param attempt which one it is, and how long it may take
     * @return its end
     * @throws Exception it could not be begun; that counts as its end
     */
    CompletionStage<T> run(Attempt attempt) throws Exception;
}
