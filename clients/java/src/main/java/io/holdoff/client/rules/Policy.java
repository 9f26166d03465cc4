package io.holdoff.client.rules;

import java.util.function.Consumer;

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
 * @param breakerOff there is no breaker; budget, backoff and deadline hold
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
        long slowAfter,
        boolean breakerOff) {

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
                    0,
                    false);

    /** The same with some changes. */
    public Policy with(Consumer<Draft> changes) {
        Draft draft = new Draft(this);
        changes.accept(draft);
        return draft.done();
    }

    /** A policy that is being changed. */
    public static final class Draft {
        public int maxAttempts;
        public Strategy strategy;
        public long initialDelay;
        public double multiplier;
        public long maxDelay;
        public long minDelay;
        public Jitter jitter;
        public double jitterProportion;
        public long minAttemptTime;
        public long pushbackMax;
        public long pushbackSpread;
        public long budgetRatioPpm;
        public long budgetTtl;
        public long floorMicrosPerSecond;
        public long openFor;
        public double openMultiplier;
        public long openMax;
        public long slowAfter;
        public boolean breakerOff;

        private Draft(Policy policy) {
            maxAttempts = policy.maxAttempts;
            strategy = policy.strategy;
            initialDelay = policy.initialDelay;
            multiplier = policy.multiplier;
            maxDelay = policy.maxDelay;
            minDelay = policy.minDelay;
            jitter = policy.jitter;
            jitterProportion = policy.jitterProportion;
            minAttemptTime = policy.minAttemptTime;
            pushbackMax = policy.pushbackMax;
            pushbackSpread = policy.pushbackSpread;
            budgetRatioPpm = policy.budgetRatioPpm;
            budgetTtl = policy.budgetTtl;
            floorMicrosPerSecond = policy.floorMicrosPerSecond;
            openFor = policy.openFor;
            openMultiplier = policy.openMultiplier;
            openMax = policy.openMax;
            slowAfter = policy.slowAfter;
            breakerOff = policy.breakerOff;
        }

        private Policy done() {
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
                    floorMicrosPerSecond,
                    openFor,
                    openMultiplier,
                    openMax,
                    slowAfter,
                    breakerOff);
        }
    }
}
