package io.holdoff.client;

import io.holdoff.client.link.Entropy;
import io.holdoff.client.link.Pushed;
import io.holdoff.client.rules.LocalPermit;
import io.holdoff.client.rules.LocalRecord;
import io.holdoff.client.rules.LocalRecord.Answer;
import io.holdoff.client.rules.LocalRecord.Asked;
import io.holdoff.client.rules.LocalRecord.Before;
import io.holdoff.client.rules.LocalRecord.Mode;
import io.holdoff.client.rules.LocalRecord.Sample;
import io.holdoff.client.rules.Nanos;
import io.holdoff.client.rules.Policy;
import java.util.HashMap;
import java.util.Map;

/**
 * Decisions without the service: its own rules, over what this process alone knows. The policy is
 * the last one that the service pushed for the dependency; before, it is the client's own.
 */
final class Local {
    private static final int DEPENDENCIES_MAX = 10_000;

    /** A dependency that was not called for so long may be forgotten. */
    private static final long IDLE = 600 * Nanos.SECOND;

    private final Policy own;
    private final Mode mode;
    private final Clock clock;

    /** Null: there is no service. */
    private final Pushed pushed;

    private final Map<String, Entry> entries = new HashMap<>();

    private static final class Entry {
        private final LocalRecord record;
        private long used;

        private Entry(long now) {
            record = new LocalRecord(now);
        }
    }

    Local(Policy own, Mode mode, Clock clock, Pushed pushed) {
        this.own = own;
        this.mode = mode;
        this.clock = clock;
        this.pushed = pushed;
    }

    Policy policy(String dependency) {
        return pushed == null ? own : pushed.policy(dependency).orElse(own);
    }

    synchronized Answer first(String dependency, Long timeLeft) {
        return entry(dependency).record.first(asked(dependency, timeLeft), clock.time());
    }

    /** About an attempt that the service has let go, which binds no more than that. */
    synchronized Answer firstLetGo(String dependency, Long timeLeft) {
        Asked asked = asked(dependency, timeLeft, Mode.OWN_RECORD);
        return entry(dependency).record.first(asked, clock.time());
    }

    synchronized Answer retry(
            String dependency, Long timeLeft, long attempt, Before before, boolean isRepeatable) {
        LocalRecord record = entry(dependency).record;
        Asked asked = asked(dependency, timeLeft);
        return record.retry(asked, attempt, before, isRepeatable, clock.time());
    }

    /** How the attempt before ended, of a question that was answered already. */
    synchronized void note(String dependency, long attempt, Before before) {
        LocalRecord record = entry(dependency).record;
        record.note(policy(dependency), mode, attempt, before, clock.time());
    }

    /** How a first attempt ended that the service had let go, where no question tells of it. */
    void count(String dependency, Outcome outcome) {
        note(dependency, 2, new Before(null, outcome, true));
    }

    synchronized Answer confirm(String dependency, Long timeLeft, LocalPermit permit) {
        LocalRecord record = entry(dependency).record;
        return record.confirm(asked(dependency, timeLeft), permit, clock.time());
    }

    synchronized void report(String dependency, LocalPermit permit, Outcome outcome) {
        LocalRecord record = entry(dependency).record;
        record.report(policy(dependency), mode, permit, outcome, clock.time());
    }

    /** What the service said, for the time when it no longer says anything. */
    synchronized void told(String dependency, DenialReason reason, Long retryAfter) {
        entry(dependency).record.told(reason, retryAfter, clock.time());
    }

    /** The service grants again. */
    synchronized void letGo(String dependency) {
        Entry entry = entries.get(dependency);
        if (entry != null) {
            entry.record.letGo(clock.time());
        }
    }

    private Asked asked(String dependency, Long timeLeft) {
        return asked(dependency, timeLeft, mode);
    }

    private Asked asked(String dependency, Long timeLeft, Mode mode) {
        Sample sample = new Sample(Entropy.unit(), Entropy.unit());
        return new Asked(policy(dependency), mode, timeLeft, sample);
    }

    /** Past the limit those not called for long go, and then those unknown share one record. */
    private Entry entry(String dependency) {
        long now = clock.time();
        Entry entry = entries.get(dependency);
        if (entry == null) {
            if (entries.size() >= DEPENDENCIES_MAX) {
                entries.values().removeIf(old -> now - old.used > IDLE);
            }
            String name = entries.size() >= DEPENDENCIES_MAX ? "" : dependency;
            entry = entries.computeIfAbsent(name, any -> new Entry(now));
        }
        entry.used = now;
        Long letGoAt = pushed == null ? null : pushed.letGoAt(dependency);
        if (letGoAt != null) {
            entry.record.letGoAt(letGoAt, now);
        }
        return entry;
    }
}
