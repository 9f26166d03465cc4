package io.holdoff.client;

import java.time.Duration;
import java.util.Optional;

/** What a {@link Checker} learns. */
public sealed interface Finding {
    /**
     * A run of its own has ended.
     *
     * @param isHealthy whether the dependency answered as it should, in time
     * @param timedOut it was given up
     * @param took how long it took
     * @param isLocal not planned by the service, which does not learn of it
     * @param fleet what all checkers together have found; empty: the service does not say
     */
    record Ran(
            boolean isHealthy,
            boolean timedOut,
            Duration took,
            boolean isLocal,
            Optional<Verdict> fleet)
            implements Finding {}

    /**
     * Others check.
     *
     * @param verdict what they have found
     * @param age how long ago; empty: nobody has checked yet
     * @param askAgain the service is asked again then
     */
    record Shared(Verdict verdict, Optional<Duration> age, Duration askAgain) implements Finding {}

    /**
     * The service plans no checks of this dependency; they go on without. Told once, until it
     * plans again.
     *
     * @param why its words
     */
    record NotPlanned(String why) implements Finding {}

    /**
     * The service does not answer; checks go on without. Told once, until it answers.
     *
     * @param why what is known of it
     */
    record Away(String why) implements Finding {}
}
