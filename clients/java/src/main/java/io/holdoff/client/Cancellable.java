package io.holdoff.client;

import java.util.concurrent.CompletableFuture;

/**
 * What those get who do not block. Cancelled, it gives up what it waits for before anybody learns
 * of it, so that whoever does may flush what became of that.
 */
final class Cancellable<T> extends CompletableFuture<T> {
    private final Runnable giveUp;

    Cancellable(Runnable giveUp) {
        this.giveUp = giveUp;
    }

    @Override
    public boolean cancel(boolean mayInterrupt) {
        boolean isCancelled;
        try {
            if (!isDone()) {
                giveUp.run();
            }
        } finally {
            isCancelled = super.cancel(mayInterrupt);
        }
        return isCancelled;
    }
}
