package io.holdoff.client;

/**
 * The answer was no, and there is no real error to show: no attempt was made, or it was asked for
 * in two steps.
 *
 * <p>Where an attempt has thrown something, that itself is thrown, and {@link
 * Holdoff#whyStopped(Throwable)} finds the reason in it; where all were cut off, a {@link
 * TimedOutException}.
 */
public final class DeniedException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** Not written: it is for this process. */
    private final transient Denied denied;

    /** Attempts that were made. */
    private final int attempts;

    DeniedException(Denied denied, int attempts) {
        super(text(denied, attempts));
        this.denied = denied;
        this.attempts = attempts;
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
     * @return 0: none
     */
    public int attempts() {
        return attempts;
    }

    private static String text(Denied denied, int attempts) {
        return attempts == 0
                ? "not called: " + denied
                : "gave up after attempt " + attempts + ": " + denied;
    }
}
