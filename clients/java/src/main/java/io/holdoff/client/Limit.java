package io.holdoff.client;

import io.holdoff.client.link.Loop;
import java.util.concurrent.ScheduledFuture;

/** Interrupts a thread that takes longer than it may, and only while it is in the attempt. */
final class Limit implements AutoCloseable {
    private static final Limit NONE = new Limit();

    private final Thread thread;
    private final ScheduledFuture<?> timer;
    private boolean isOver;
    private boolean hasFired;

    private Limit() {
        thread = null;
        timer = null;
    }

    private Limit(Loop loop, long nanos) {
        thread = Thread.currentThread();
        timer = loop.after(nanos, this::fire);
    }

    /** {@code nanos} null: nothing limits it. */
    static Limit of(Loop loop, Long nanos) {
        return nanos == null ? NONE : new Limit(loop, nanos);
    }

    private synchronized void fire() {
        if (!isOver) {
            hasFired = true;
            thread.interrupt();
        }
    }

    /** Whether the thread was interrupted. */
    synchronized boolean hasFired() {
        return hasFired;
    }

    /** The attempt is over; an interrupt that it has not noticed is taken back. */
    @Override
    public void close() {
        if (thread == null) {
            return;
        }
        if (timer != null) {
            timer.cancel(false);
        }
        boolean takeBack;
        synchronized (this) {
            isOver = true;
            takeBack = hasFired;
        }
        if (takeBack) {
            Thread.interrupted();
        }
    }
}
