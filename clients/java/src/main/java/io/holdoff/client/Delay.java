package io.holdoff.client;

import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;

/** A delay that ends as soon as the service pushes what makes it useless. */
final class Delay implements Runnable {
    private final Core core;
    private final long nanos;

    /** Asked after each update; null: nothing that is pushed matters. */
    private final Supplier<Optional<Denied>> useless;

    private final CompletableFuture<Optional<Denied>> dropped = new CompletableFuture<>();

    Delay(Core core, long nanos, Supplier<Optional<Denied>> useless) {
        this.core = core;
        this.nanos = nanos;
        this.useless = useless;
    }

    /** Why it was dropped; null: the delay is over. */
    Denied sleep() throws InterruptedException {
        watch();
        try {
            return dropped.get(nanos, TimeUnit.NANOSECONDS).orElse(null);
        } catch (TimeoutException over) {
            return null;
        } catch (ExecutionException impossible) {
            throw new IllegalStateException(impossible);
        } finally {
            forget();
        }
    }

    /** The same without blocking a thread. Given up, it is over at once. */
    CompletableFuture<Optional<Denied>> sleepLater(Pending pending) {
        watch();
        var timer = core.loop().after(nanos, () -> dropped.complete(Optional.empty()));
        if (timer == null) {
            // The client is closed: nobody keeps the time any more.
            dropped.complete(Optional.empty());
        }
        pending.cancelBy(() -> dropped.complete(Optional.empty()));
        return dropped.whenComplete(
                (why, error) -> {
                    if (timer != null) {
                        timer.cancel(false);
                    }
                    forget();
                });
    }

    private void watch() {
        if (useless != null) {
            core.link().pushed().listen(this);
            run();
        }
    }

    private void forget() {
        if (useless != null) {
            core.link().pushed().forget(this);
        }
    }

    /** Something was pushed. */
    @Override
    public void run() {
        Optional<Denied> why = useless.get();
        if (why.isPresent()) {
            dropped.complete(why);
        }
    }
}
