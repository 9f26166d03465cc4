package io.holdoff.client.link;

import com.google.protobuf.Duration;
import io.holdoff.client.rules.Nanos;
import io.holdoff.client.rules.Policy;
import io.holdoff.client.v1.ClientPolicy;
import io.holdoff.client.v1.OfflineAllowance;

/**
 * Reads the policy that the service pushes, for the time when it says no more. What is out of
 * range leaves the client's own value; {@code docs/client-states.md}, "Alone", has the ranges.
 *
 * <p>The service shares the floor out, so that clients alone add up to the fleet's: it is rounded
 * down here, and never up.
 */
final class PolicyReader {
    private static final int ATTEMPTS_MAX = 1_000;
    private static final double FLOOR_MAX = 1e6;

    private PolicyReader() {}

    /** Null: not said. */
    static Policy read(ClientPolicy said, OfflineAllowance allowance, Policy own) {
        Policy policy = said == null ? own : read(said, own);
        return allowance == null ? policy : withFloor(policy, allowance.getRetriesPerSecond());
    }

    private static Policy read(ClientPolicy said, Policy own) {
        return own.with(
                policy -> {
                    readDelays(said, own, policy);
                    readBreaker(said, own, policy);
                    policy.budgetRatioPpm = ratioPpm(said.getBudgetRatio(), own);
                    policy.budgetTtl =
                            someTime(said.hasBudgetTtl(), said.getBudgetTtl(), own.budgetTtl());
                });
    }

    private static void readDelays(ClientPolicy said, Policy own, Policy.Draft policy) {
        long maxDelay = span(said.hasMaxDelay(), said.getMaxDelay(), own.maxDelay());
        long initial = span(said.hasInitialDelay(), said.getInitialDelay(), own.initialDelay());
        long min = span(said.hasMinDelay(), said.getMinDelay(), own.minDelay());
        policy.maxAttempts = maxAttempts(said, own);
        policy.strategy = strategy(said, own);
        policy.initialDelay = Nanos.min(initial, maxDelay);
        policy.multiplier = within(said.getMultiplier(), 1, 100, own.multiplier());
        policy.maxDelay = maxDelay;
        policy.minDelay = Nanos.min(min, maxDelay);
        policy.jitter = jitter(said, own);
        if (isProportional(said)) {
            policy.jitterProportion = said.getJitterProportion();
        }
        policy.minAttemptTime =
                span(said.hasMinAttemptTime(), said.getMinAttemptTime(), own.minAttemptTime());
        policy.pushbackMax =
                span(said.hasPushbackMax(), said.getPushbackMax(), own.pushbackMax());
        policy.pushbackSpread =
                span(said.hasPushbackSpread(), said.getPushbackSpread(), own.pushbackSpread());
    }

    private static void readBreaker(ClientPolicy said, Policy own, Policy.Draft policy) {
        long openFor = someTime(said.hasOpenFor(), said.getOpenFor(), own.openFor());
        long openMax = someTime(said.hasOpenMax(), said.getOpenMax(), own.openMax());
        policy.openFor = openFor;
        policy.openMultiplier = within(said.getOpenMultiplier(), 1, 1_000, own.openMultiplier());
        policy.openMax = Nanos.max(openMax, openFor);
        policy.slowAfter = span(said.hasSlowAfter(), said.getSlowAfter(), own.slowAfter());
        policy.breakerOff = said.getBreakerOff();
    }

    /** Unsigned on the wire: a negative number is a large one. */
    private static int maxAttempts(ClientPolicy said, Policy own) {
        int max = said.getMaxAttempts();
        return max >= 0 && max <= ATTEMPTS_MAX ? max : own.maxAttempts();
    }

    private static Policy.Strategy strategy(ClientPolicy said, Policy own) {
        return switch (said.getStrategyValue()) {
            case 1 -> Policy.Strategy.FIXED;
            case 2 -> Policy.Strategy.LINEAR;
            case 3 -> Policy.Strategy.EXPONENTIAL;
            default -> own.strategy();
        };
    }

    private static Policy.Jitter jitter(ClientPolicy said, Policy own) {
        return switch (said.getJitterValue()) {
            case 1 -> Policy.Jitter.NONE;
            case 2 -> Policy.Jitter.FULL;
            case 3 -> Policy.Jitter.EQUAL;
            case 4 -> isProportional(said) ? Policy.Jitter.PROPORTIONAL : own.jitter();
            case 5 -> Policy.Jitter.DECORRELATED;
            default -> own.jitter();
        };
    }

    private static boolean isProportional(ClientPolicy said) {
        double proportion = said.getJitterProportion();
        return said.getJitterValue() == 4 && proportion >= 0 && proportion <= 1;
    }

    private static long ratioPpm(double ratio, Policy own) {
        boolean inRange = ratio >= 0 && ratio <= 10;
        return inRange ? (long) Math.floor(ratio * 1e6 + 0.5) : own.budgetRatioPpm();
    }

    private static Policy withFloor(Policy policy, double perSecond) {
        if (!(perSecond >= 0 && perSecond <= FLOOR_MAX)) {
            return policy;
        }
        return policy.with(changed -> changed.floorMicrosPerSecond = (long) (perSecond * 1e6));
    }

    /** No number is in no range. */
    private static double within(double value, double low, double high, double otherwise) {
        return value >= low && value <= high ? value : otherwise;
    }

    private static long span(boolean isSaid, Duration said, long otherwise) {
        if (!isSaid) {
            return otherwise;
        }
        try {
            long span = Wire.readDuration(said);
            return Nanos.less(Nanos.DAY, span) ? otherwise : span;
        } catch (Wire.OddDuration odd) {
            return otherwise;
        }
    }

    private static long someTime(boolean isSaid, Duration said, long otherwise) {
        long span = span(isSaid, said, otherwise);
        return span == 0 ? otherwise : span;
    }
}
