package io.holdoff.client;

import java.util.Optional;

/**
 * What a {@link Checker} did until its end.
 *
 * @param runs own runs that have ended
 * @param last whether the last one found the dependency healthy
 */
public record Checked(long runs, Optional<Boolean> last) {}
