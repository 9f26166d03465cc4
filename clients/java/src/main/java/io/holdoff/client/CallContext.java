package io.holdoff.client;

import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Status;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/**
 * The gRPC context in which a call was begun. All that is done for the call is done in it, on
 * whatever thread, as gRPC itself does it; and the call is given up with it.
 */
final class CallContext implements Context.CancellationListener {
    private final Context context;

    /** Null: gRPC's own thread, or whichever it is. */
    private final Executor executor;

    private final Consumer<Status> giveUp;

    CallContext(Context context, Executor executor, Consumer<Status> giveUp) {
        this.context = context;
        this.executor = executor;
        this.giveUp = giveUp;
    }

    /** Until it is over. */
    void watch() {
        context.addListener(this, Runnable::run);
    }

    void over() {
        context.removeListener(this);
    }

    /** Its deadline is one of those of the call, which ends and counts by it. */
    @Override
    public void cancelled(Context ended) {
        if (!(ended.cancellationCause() instanceof TimeoutException)) {
            giveUp.accept(Contexts.statusFromCancelled(ended));
        }
    }

    void run(Runnable task) {
        context.run(task);
    }

    /** On the executor that the stub waits for. */
    void handOver(Runnable task) {
        if (executor == null) {
            context.run(task);
        } else {
            executor.execute(context.wrap(task));
        }
    }
}
