package io.holdoff.client.link;

import java.util.HashSet;
import java.util.Set;

/**
 * Which endpoint is tried next, and when. A fleet that loses its service together must not come
 * back together: each return is drawn from a range. It grows where the service is there but ill.
 * Where nobody listens it does not: looking costs nobody anything, and the fleet is back within
 * the first range of a restart.
 */
final class Course {
    private static final long SECOND = 1_000_000_000L;

    /**
     * The return after a loss is drawn from 0 to so long: with its connecting and its first
     * question, a client is back within 5 s of the service.
     */
    private static final long SPREAD = 4 * SECOND + SECOND / 2;

    private static final long SPREAD_MAX = 30 * SECOND;

    /** A service that was silent is looked for no sooner, and within {@link #SPREAD}. */
    private static final long SEARCH_AFTER = SECOND;

    private final int endpoints;
    private final Set<Integer> unary = new HashSet<>();
    private int start;
    private long notBefore;
    private int failures;

    /** How the time with one connection ended. */
    enum End {
        /** Nobody wants it any more. */
        UNWANTED,
        /** It broke, after answers. */
        BROKEN,
        /** It broke before any. */
        BROKEN_UNPROVEN,
        SILENT,
        /** It is time to try a stream, or the preferred endpoint, again. */
        AGAIN
    }

    Course(int endpoints, long now) {
        this.endpoints = endpoints;
        notBefore = now;
    }

    int start() {
        return start % endpoints;
    }

    int endpoints() {
        return endpoints;
    }

    long notBefore() {
        return notBefore;
    }

    boolean isUnary(int index) {
        return unary.contains(index);
    }

    void noteUnary(int index) {
        unary.add(index);
    }

    /** With {@code unit} uniform in [0, 1). */
    void nothingReachable(long now, double unit) {
        start = 0;
        failures = 0;
        draw(now, unit);
    }

    void ended(int index, End end, long now, double unit) {
        switch (end) {
            case BROKEN -> {
                failures = 0;
                start = 0;
                draw(now, unit);
            }
            case BROKEN_UNPROVEN -> {
                start = index + 1;
                draw(now, unit);
            }
            // Another endpoint may answer.
            case SILENT -> {
                start = index + 1;
                notBefore = now + SEARCH_AFTER + (long) ((SPREAD - SEARCH_AFTER) * unit);
            }
            case AGAIN -> {
                unary.remove(index);
                start = 0;
            }
            case UNWANTED -> {}
        }
    }

    private void draw(long now, double unit) {
        long range = Math.min(SPREAD << Math.min(failures, 3), SPREAD_MAX);
        failures++;
        notBefore = now + (long) (range * unit);
    }
}
