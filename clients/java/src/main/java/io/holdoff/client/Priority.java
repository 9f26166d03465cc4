package io.holdoff.client;

/** Which callers go first when there is not room for all. */
public enum Priority {
    /** Can wait. */
    LOW,
    /** The usual. */
    NORMAL,
    /** A person waits for it. */
    HIGH
}
