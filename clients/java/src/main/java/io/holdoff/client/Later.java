package io.holdoff.client;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.BiConsumer;

/** What those get who do not block. */
final class Later {
    private Later() {}

    /** What a caller gets, completed by a thread that may run its code; cancelled, it gives up. */
    static CompletableFuture<Permit> shown(
            Core core, Pending pending, CompletableFuture<Decision> asked, int attempts) {
        CompletableFuture<Permit> shown = new Cancellable<>(pending::cancel);
        BiConsumer<Decision, Throwable> end =
                (said, fault) -> {
                    if (fault != null) {
                        shown.completeExceptionally(cause(fault));
                    } else if (said instanceof Permit permit) {
                        if (pending.isCancelled() || !shown.complete(permit)) {
                            permit.close();
                        }
                    } else if (!pending.isCancelled()) {
                        Denied denied = ((Decision.No) said).denied();
                        shown.completeExceptionally(new DeniedException(denied, attempts));
                    }
                };
        if (asked.isDone()) {
            asked.whenComplete(end);
        } else {
            asked.whenCompleteAsync(end, core.executor());
        }
        return shown;
    }

    static Throwable cause(Throwable error) {
        boolean isWrapper = error instanceof CompletionException && error.getCause() != null;
        return isWrapper ? error.getCause() : error;
    }
}
