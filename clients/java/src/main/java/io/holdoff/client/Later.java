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
        CompletableFuture<Permit> shown = new CompletableFuture<>();
        BiConsumer<Decision, Throwable> end =
                (said, fault) -> {
                    if (fault != null) {
                        shown.completeExceptionally(cause(fault));
                    } else if (said instanceof Decision.No no) {
                        shown.completeExceptionally(new DeniedException(no.denied(), attempts));
                    } else if (!shown.complete((Permit) said)) {
                        ((Permit) said).close();
                    }
                };
        if (asked.isDone()) {
            asked.whenComplete(end);
        } else {
            asked.whenCompleteAsync(end, core.executor());
        }
        shown.whenComplete(
                (value, error) -> {
                    if (shown.isCancelled()) {
                        pending.cancel();
                    }
                });
        return shown;
    }

    static Throwable cause(Throwable error) {
        boolean isWrapper = error instanceof CompletionException && error.getCause() != null;
        return isWrapper ? error.getCause() : error;
    }
}
