package io.holdoff.client.link;

/**
 * Why the service decided nothing.
 *
 * @param detail for people
 */
public record NoAnswer(Kind kind, String detail) {
    /** By what the client can do. */
    public enum Kind {
        /** There is no service to ask, or it cannot be asked this. */
        UNASKED,
        /** Not connected, or known to be away. */
        AWAY,
        /** Too many questions wait. */
        BUSY,
        /** The connection broke; the question may have arrived. */
        LOST,
        /** No answer in time. */
        LATE,
        /** No connection in time: it was not sent. */
        UNSENT,
        /** An error in place of an answer. */
        FAILED,
        /** An error that says that the question is wrong. */
        REFUSED,
        /** The caller does not wait any longer. */
        GIVEN_UP,
        /** The answer says something unknown, or leaves out what it must say. */
        UNREADABLE,
        /** A grant that does not say when. */
        NO_DELAY
    }

    static final NoAnswer AWAY = new NoAnswer(Kind.AWAY, "not connected");
    static final NoAnswer BUSY = new NoAnswer(Kind.BUSY, "too many questions wait");
    static final NoAnswer LOST = new NoAnswer(Kind.LOST, "the connection broke");
    static final NoAnswer LATE = new NoAnswer(Kind.LATE, "no answer in time");
    static final NoAnswer UNSENT = new NoAnswer(Kind.UNSENT, "no connection in time");
    static final NoAnswer GIVEN_UP = new NoAnswer(Kind.GIVEN_UP, "given up");
    public static final NoAnswer UNASKED = new NoAnswer(Kind.UNASKED, "not asked");

    /** Whoever asked has waited for nothing. */
    boolean isLate() {
        return kind == Kind.LATE || kind == Kind.UNSENT;
    }

    /** Whether the service may have taken what was told with the question. */
    public boolean mayHaveArrived() {
        return switch (kind) {
            case LOST, LATE, GIVEN_UP, UNREADABLE, NO_DELAY -> true;
            case UNASKED, AWAY, BUSY, UNSENT, FAILED, REFUSED -> false;
        };
    }
}
