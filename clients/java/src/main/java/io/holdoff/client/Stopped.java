package io.holdoff.client;

/**
 * Why a call was given up, among the suppressed exceptions of its last real error. It has no stack
 * trace of its own.
 */
final class Stopped extends Exception {
    private static final long serialVersionUID = 1;

    private transient volatile Denied denied;
    private volatile int attempts;

    private Stopped(Denied denied, int attempts) {
        super(null, null, false, false);
        this.denied = denied;
        this.attempts = attempts;
    }

    /**
     * Attaches the reason. An exception that is thrown again and again has it once, the last one.
     * One that allows no suppressed exceptions goes without.
     */
    static void attach(Throwable error, Denied denied, int attempts) {
        for (Throwable suppressed : error.getSuppressed()) {
            if (suppressed instanceof Stopped before) {
                before.denied = denied;
                before.attempts = attempts;
                return;
            }
        }
        error.addSuppressed(new Stopped(denied, attempts));
    }

    Denied denied() {
        return denied;
    }

    @Override
    public String getMessage() {
        return "gave up after attempt " + attempts + ": " + denied;
    }
}
