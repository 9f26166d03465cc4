package io.holdoff.client.rules;

/**
 * What a client alone keeps to, for one dependency. Spans are nanoseconds.
 *
 * @param maxAttempts of a call, the first one included; 0: unlimited
 * @param strategy how the ceiling of a delay grows
 * @param initialDelay the first ceiling
 * @param multiplier of {@link Strategy#EXPONENTIAL}
 * @param maxDelay no backoff delay is longer
 * @param minDelay no delay before a retry is shorter
 * @param jitter how a delay is drawn below its ceiling
 * @param jitterProportion of {@link Jitter#PROPORTIONAL}, 0 to 1
 * @param minAttemptTime what an attempt needs at least
 * @param pushbackMax the longest pushback that is obeyed
 * @param pushbackSpread over how long those that were told the same time are spread
 * @param budgetRatioPpm retries for each first attempt, in millionths
 * @param budgetTtl the window of the budget
 * @param floorMicrosPerSecond retries a second whatever the first attempts, in millionths
 * @param openFor the first open period of the breaker
 * @param openMultiplier its growth with each trip
 * @param openMax the longest open period
 * @param slowAfter a call that takes so long is slow; 0: none is
 */
public record Policy(
        int maxAttempts,
        Strategy strategy,
        long initialDelay,
        double multiplier,
        long maxDelay,
        long minDelay,
        Jitter jitter,
        double jitterProportion,
        long minAttemptTime,
        long pushbackMax,
        long pushbackSpread,
        long budgetRatioPpm,
        long budgetTtl,
        long floorMicrosPerSecond,
        long openFor,
        double openMultiplier,
        long openMax,
        long slowAfter) {

    /** How the ceiling of a delay grows with the retries of a call. */
    public enum Strategy {
        FIXED,
        LINEAR,
        EXPONENTIAL
    }

    /** How a delay is drawn below its ceiling. */
    public enum Jitter {
        NONE,
        FULL,
        EQUAL,
        PROPORTIONAL,
        DECORRELATED
    }

    /**
     * Before anything was pushed: the documented defaults, with a budget of a tenth of this
     * process's own calls and one retry a second.
     */
    public static final Policy OWN =
            new Policy(
                    3,
                    Strategy.EXPONENTIAL,
                    100 * Nanos.MILLISECOND,
                    2,
                    10 * Nanos.SECOND,
                    0,
                    Jitter.FULL,
                    0,
                    0,
                    60 * Nanos.SECOND,
                    Nanos.SECOND,
                    100_000,
                    10 * Nanos.SECOND,
                    1_000_000,
                    10 * Nanos.SECOND,
                    2,
                    60 * Nanos.SECOND,
                    0);

    /** With another floor of the budget. */
    public Policy withFloor(long microsPerSecond) {
        return new Policy(
                maxAttempts,
                strategy,
                initialDelay,
                multiplier,
                maxDelay,
                minDelay,
                jitter,
                jitterProportion,
                minAttemptTime,
                pushbackMax,
                pushbackSpread,
                budgetRatioPpm,
                budgetTtl,
                microsPerSecond,
                openFor,
                openMultiplier,
                openMax,
                slowAfter);
    }

    /** With another shortest and longest ceiling. */
    public Policy withDelays(long initial, long max) {
        return new Policy(
                maxAttempts,
                strategy,
                initial,
                multiplier,
                max,
                minDelay,
                jitter,
                jitterProportion,
                minAttemptTime,
                pushbackMax,
                pushbackSpread,
                budgetRatioPpm,
                budgetTtl,
                floorMicrosPerSecond,
                openFor,
                openMultiplier,
                openMax,
                slowAfter);
    }
}
