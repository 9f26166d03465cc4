package io.holdoff.client;

/**
 * A call whose attempts were all cut off by a time limit: its deadline, that of an attempt, or a
 * probe's lease. None of them has thrown anything itself.
 */
public final class TimedOutException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** Not written: it is for this process. */
    private final transient Denied denied;

    /** Attempts that were made. */
    private final int attempts;

    TimedOutException(Denied denied, int attempts) {
        super("timed out: gave up after attempt " + attempts + ": " + denied);
        this.denied = denied;
        this.attempts = attempts;
    }

    /** What there is to throw where no attempt has thrown anything. */
    static RuntimeException of(Denied denied, int attempts) {
        return attempts == 0
                ? new DeniedException(denied, 0)
                : new TimedOutException(denied, attempts);
    }

    /**
     * Why there was no further attempt.
     *
     * @return null where this was read from a stream
     */
    public Denied denied() {
        return denied;
    }

    /**
     * Attempts that were made.
     *
     * @return at least 1
     */
    public int attempts() {
        return attempts;
    }
}
