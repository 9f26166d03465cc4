package io.holdoff.client.link;

import java.lang.System.Logger.Level;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * One daemon thread, which owns the connection and keeps the time of those who wait. It begins
 * with the first task, and runs nobody else's code.
 */
public final class Loop implements Executor {
    private static final System.Logger LOG = System.getLogger("io.holdoff.client");
    private static final AtomicInteger NUMBER = new AtomicInteger();

    private final ScheduledThreadPoolExecutor executor;

    public Loop() {
        executor =
                new ScheduledThreadPoolExecutor(
                        1,
                        task -> {
                            Thread thread = new Thread(task, "holdoff-" + NUMBER.incrementAndGet());
                            thread.setDaemon(true);
                            return thread;
                        });
        executor.setRemoveOnCancelPolicy(true);
        executor.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
    }

    /** After the end of the loop nothing happens. */
    @Override
    public void execute(Runnable task) {
        try {
            executor.execute(() -> run(task));
        } catch (RejectedExecutionException ended) {
            LOG.log(Level.DEBUG, "the client is closed");
        }
    }

    /** Null: the loop has ended. */
    public ScheduledFuture<?> after(long nanos, Runnable task) {
        try {
            return executor.schedule(() -> run(task), nanos, TimeUnit.NANOSECONDS);
        } catch (RejectedExecutionException ended) {
            return null;
        }
    }

    static void cancel(ScheduledFuture<?> timer) {
        if (timer != null) {
            timer.cancel(false);
        }
    }

    public void end() {
        executor.shutdown();
    }

    /** A task that fails is a fault of this library, and must not stop the others. */
    private static void run(Runnable task) {
        try {
            task.run();
        } catch (RuntimeException fault) {
            LOG.log(Level.ERROR, "a fault in the holdoff client; calls go on", fault);
        }
    }
}
