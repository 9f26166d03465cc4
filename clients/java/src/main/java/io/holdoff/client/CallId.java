package io.holdoff.client;

import io.holdoff.client.link.Entropy;
import java.util.HexFormat;

/**
 * The name of a call, the same for all of its attempts. It is written only where a question is
 * asked: most calls on pushed state never need it.
 */
final class CallId {
    private final String given;
    private final long drawn;

    private CallId(String given, long drawn) {
        this.given = given;
        this.drawn = drawn;
    }

    /** {@code given} may be null. */
    static CallId of(String given) {
        return given == null ? draw() : new CallId(given, 0);
    }

    static CallId draw() {
        return new CallId(null, Entropy.number());
    }

    @Override
    public String toString() {
        return given == null ? HexFormat.of().toHexDigits(drawn) : given;
    }
}
