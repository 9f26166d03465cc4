package io.holdoff.client;

import java.time.Duration;
import java.util.Optional;

/**
 * What an operation is told about its attempt.
 *
 * @param number 1 for the first call
 * @param limit the attempt is given up after so long; empty: nothing limits it
 * @param suggestedTimeout a limit that the service finds sensible; it does not bind
 * @param isProbe it tests a dependency that is thought broken
 * @param isLocal it was granted without the service
 */
public record Attempt(
        int number,
        Optional<Duration> limit,
        Optional<Duration> suggestedTimeout,
        boolean isProbe,
        boolean isLocal) {}
