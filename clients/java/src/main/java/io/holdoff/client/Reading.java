package io.holdoff.client;

import java.lang.System.Logger.Level;
import java.util.Objects;

/** How the end of an attempt of a call is read. */
final class Reading {
    private static final System.Logger LOG = System.getLogger("io.holdoff.client");

    private Reading() {}

    /**
     * A classifier that fails, or says nothing, must not lose the call: nothing is known then.
     *
     * @param begun by {@link System#nanoTime}, when the attempt began
     */
    static Outcome of(Classifier by, Object value, Throwable error, long begun) {
        Stopped.forgetWhatIsOlder(error, begun);
        try {
            return Objects.requireNonNull(by.classify(value, error), "a classifier said null");
        } catch (RuntimeException fault) {
            LOG.log(Level.DEBUG, "a classifier failed; the outcome is ignored", fault);
            return Outcome.of(OutcomeKind.IGNORED);
        }
    }
}
