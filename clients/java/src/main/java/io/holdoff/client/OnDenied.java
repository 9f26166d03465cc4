package io.holdoff.client;

/** What a call does when the answer is no. */
public enum OnDenied {
    /** Fails at once. */
    FAIL,
    /**
     * Where the denial says when asking again makes sense, waits so long and asks again, while the
     * caller's time lasts.
     */
    WAIT
}
