package io.holdoff.client;

/**
 * What those who do not block wait for now, so that it can be given up. Once it is, whatever is
 * begun is given up at once.
 */
final class Pending {
    private boolean isCancelled;
    private Runnable cancel = () -> {};

    void cancelBy(Runnable by) {
        boolean isLate;
        synchronized (this) {
            cancel = by;
            isLate = isCancelled;
        }
        if (isLate) {
            by.run();
        }
    }

    void cancel() {
        Runnable by;
        synchronized (this) {
            isCancelled = true;
            by = cancel;
        }
        by.run();
    }

    synchronized boolean isCancelled() {
        return isCancelled;
    }
}
