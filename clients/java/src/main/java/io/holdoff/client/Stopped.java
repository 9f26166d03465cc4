package io.holdoff.client;

/**
 * Why a call was given up, among the suppressed exceptions of its last real error. It has no stack
 * trace of its own.
 */
final class Stopped extends Exception {
    private static final long serialVersionUID = 1;

    /** Causes may go round. */
    static final int CAUSES_MAX = 16;

    private transient volatile Denied denied;
    private volatile int attempts;

    /** More than one attempt was made, by this call or by one below it. */
    private volatile boolean wasRetried;

    /** By {@link System#nanoTime}, when it was attached last. */
    private volatile long at;

    private Stopped() {
        super(null, null, false, false);
    }

    /**
     * Attaches the reason. An exception that is thrown again and again has it once, the last one.
     * One that allows no suppressed exceptions goes without.
     */
    static void attach(Throwable error, Denied denied, int attempts) {
        Stopped before = in(error);
        Stopped stopped = before == null ? new Stopped() : before;
        stopped.denied = denied;
        stopped.attempts = attempts;
        stopped.wasRetried |= attempts > 1;
        stopped.at = System.nanoTime();
        if (before == null) {
            error.addSuppressed(stopped);
        }
    }

    /** Null: no call was given up that ended with it. */
    static Stopped in(Throwable error) {
        for (Throwable suppressed : error.getSuppressed()) {
            if (suppressed instanceof Stopped stopped) {
                return stopped;
            }
        }
        return null;
    }

    /**
     * An exception that is thrown again and again has the reason of a call before: it says nothing
     * of one below an attempt that began after it.
     *
     * @param error null: there is none
     */
    static void forgetWhatIsOlder(Throwable error, long begun) {
        int depth = 0;
        for (Throwable at = error; at != null && depth < CAUSES_MAX; at = at.getCause(), depth++) {
            Stopped stopped = in(at);
            if (stopped != null && stopped.at - begun < 0) {
                stopped.wasRetried = false;
            }
        }
    }

    boolean wasRetried() {
        return wasRetried;
    }

    Denied denied() {
        return denied;
    }

    @Override
    public String getMessage() {
        return "gave up after attempt " + attempts + ": " + denied;
    }
}
