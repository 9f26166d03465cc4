package io.holdoff.client;

import io.holdoff.client.link.Warnings;
import java.util.Objects;

/** How the end of an attempt of a call is read. */
final class Reading {
    private Reading() {}

    /**
     * A classifier that fails, or says nothing, must not lose the call: nothing is known then. An
     * error of the virtual machine is not its own.
     *
     * @param begun by {@link System#nanoTime}, when the attempt began
     */
    static Outcome of(
            Warnings warnings, Classifier by, Object value, Throwable error, long begun) {
        Stopped.forgetWhatIsOlder(error, begun);
        try {
            return Objects.requireNonNull(by.classify(value, error), "a classifier said null");
        } catch (VirtualMachineError fatal) {
            throw fatal;
        } catch (RuntimeException | Error fault) {
            warnings.classifierFailed(fault);
            return Outcome.of(OutcomeKind.IGNORED);
        }
    }
}
