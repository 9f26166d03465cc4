package io.holdoff.client;

import io.holdoff.client.link.Pushed;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** A granted delay. It ends as soon as the service pushes that the breaker has tripped since. */
final class Delay implements Runnable {
    private final Core core;
    private final String dependency;

    /** In which it was granted; null: not by the service. */
    private final Long epoch;

    private final int attempt;
    private final long nanos;
    private final CompletableFuture<Optional<Denied>> dropped = new CompletableFuture<>();

    Delay(Core core, String dependency, Long epoch, int attempt, long nanos) {
        this.core = core;
        this.dependency = dependency;
        this.epoch = epoch;
        this.attempt = attempt;
        this.nanos = nanos;
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

    /** Null: nobody pushes anything about it. */
    private Pushed pushed() {
        return core.link() == null || epoch == null ? null : core.link().pushed();
    }

    private void watch() {
        if (pushed() != null) {
            pushed().listen(this);
            run();
        }
    }

    private void forget() {
        if (pushed() != null) {
            pushed().forget(this);
        }
    }

    /** Something was pushed. */
    @Override
    public void run() {
        Optional<Denied> why = pushed().trippedSince(dependency, epoch, attempt);
        if (why.isPresent()) {
            dropped.complete(why);
        }
    }
}
