package io.holdoff.client;

import io.holdoff.client.link.Entropy;
import java.util.HexFormat;

/**
 * The name of a call, the same for all of its attempts. It is drawn where a question is asked
 * first: most calls on pushed state never need it.
 */
final class CallId {
    private final String given;
    private String drawn;

    private CallId(String given) {
        this.given = given;
    }

    /** {@code given} may be null. */
    static CallId of(String given) {
        return new CallId(given);
    }

    static CallId draw() {
        return new CallId(null);
    }

    @Override
    public synchronized String toString() {
        if (given != null) {
            return given;
        }
        if (drawn == null) {
            drawn = HexFormat.of().toHexDigits(Entropy.number());
        }
        return drawn;
    }
}
