package io.holdoff.client.rules;

import io.holdoff.client.vectors.Fields;
import java.util.Locale;

/** Policies as the vectors write them, over the client's own. */
public final class PolicyFields {
    private PolicyFields() {}

    public static Policy read(Fields fields) {
        Policy own = Policy.OWN;
        boolean isUnlimited = fields.has("max_attempts") && fields.get("max_attempts").isJsonNull();
        return new Policy(
                isUnlimited ? 0 : (int) fields.count("max_attempts", own.maxAttempts()),
                Policy.Strategy.valueOf(word(fields, "strategy", own.strategy())),
                fields.nanos("initial_delay_ns", own.initialDelay()),
                fields.real("multiplier", own.multiplier()),
                fields.nanos("max_delay_ns", own.maxDelay()),
                fields.nanos("min_delay_ns", own.minDelay()),
                Policy.Jitter.valueOf(word(fields, "jitter", own.jitter())),
                proportion(fields),
                fields.nanos("min_attempt_time_ns", own.minAttemptTime()),
                fields.nanos("pushback_max_ns", own.pushbackMax()),
                fields.nanos("pushback_spread_ns", own.pushbackSpread()),
                fields.count("budget_ratio_ppm", own.budgetRatioPpm()),
                fields.nanos("budget_ttl_ns", own.budgetTtl()),
                fields.nanos("floor_micros_per_second", own.floorMicrosPerSecond()),
                fields.nanos("open_for_ns", own.openFor()),
                fields.real("open_multiplier", own.openMultiplier()),
                fields.nanos("open_max_ns", own.openMax()),
                fields.nanos("slow_after_ns", own.slowAfter()),
                fields.flag("breaker_off", own.breakerOff()));
    }

    private static String word(Fields fields, String name, Enum<?> otherwise) {
        return fields.text(name, otherwise.name()).toUpperCase(Locale.ROOT);
    }

    private static double proportion(Fields fields) {
        for (String name : new String[] {"proportion", "jitter_proportion"}) {
            if (fields.has(name) && !fields.get(name).isJsonNull()) {
                return fields.real(name);
            }
        }
        return Policy.OWN.jitterProportion();
    }
}
