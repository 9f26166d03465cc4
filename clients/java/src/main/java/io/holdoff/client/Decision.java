package io.holdoff.client;

/** The answer to a question: a {@link Permit}, or no. */
sealed interface Decision permits Permit, Decision.No {
    /** No. */
    record No(Denied denied) implements Decision {}
}
