package io.holdoff.client;

/** How an attempt ended. */
public enum OutcomeKind {
    /** It worked. */
    SUCCESS,
    /** It failed, and a later attempt may work. */
    FAILURE,
    /** No answer came in time; it may have been executed. */
    TIMEOUT,
    /** The dependency certainly never began it: a refused connection, an unknown host. */
    NOT_SENT,
    /** The dependency asked for less: HTTP 429, gRPC RESOURCE_EXHAUSTED. */
    THROTTLED,
    /** The request itself was wrong; trying again changes nothing. */
    REJECTED,
    /** It says nothing about the dependency. */
    IGNORED,
    /** The caller gave it up. */
    CANCELLED;

    /** Whether the service should hear of it at once rather than with the next batch. */
    boolean isUrgent() {
        return switch (this) {
            case FAILURE, TIMEOUT, NOT_SENT, THROTTLED -> true;
            case SUCCESS, REJECTED, IGNORED, CANCELLED -> false;
        };
    }
}
