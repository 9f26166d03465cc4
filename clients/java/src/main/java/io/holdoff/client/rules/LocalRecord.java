package io.holdoff.client.rules;

import io.holdoff.client.DenialReason;
import io.holdoff.client.Outcome;
import io.holdoff.client.OutcomeKind;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * One dependency as this process alone knows it: a breaker with one probe at a time, a retry
 * budget, and what the service said before it went away. {@code docs/vectors.md}, "local", says
 * the rules; there is no calendar, no ramp and no rate, which plan the calls of many.
 *
 * <p>Not safe for use by several threads.
 */
public final class LocalRecord {
    /** A lease of a probe, and the time for which a process that was given none is spread. */
    private static final long PROBE_LEASE = 5 * Nanos.SECOND;

    private static final long SPREAD = 2 * Nanos.SECOND;
    private static final long HEALTHY_RESET = 60 * Nanos.SECOND;
    private static final int PROBE_SUCCESSES = 2;
    private static final int LEVELS_MAX = 64;
    private static final long CONFIRM_ABOVE = Nanos.SECOND;
    private static final long TOLD_MAX = 300 * Nanos.SECOND;

    private enum Phase {
        CLOSED,
        OPEN,
        HALF_OPEN
    }

    /** How much of the rules binds. */
    public enum Mode {
        ALL,
        /** Nothing that the service denied: it has let this attempt go. */
        OWN_RECORD,
        /** No breaker, no evidence, and nothing that the service said. */
        RETRIES_ONLY
    }

    /** The two random draws of a question, each in [0, 1). */
    public record Sample(double jitter, double spread) {}

    /** What is asked: {@code timeLeft} null is no deadline. */
    public record Asked(Policy policy, Mode mode, Long timeLeft, Sample sample) {}

    /**
     * The attempt before.
     *
     * @param permit null: the service let it go
     * @param isNew without a permit: this record has not heard of it yet
     */
    public record Before(LocalPermit permit, Outcome outcome, boolean isNew) {}

    /** Yes or no. */
    public sealed interface Answer permits Granted, Refused {}

    /** Yes, after a delay. */
    public record Granted(LocalPermit permit, long delay, boolean isProbe, boolean confirm)
            implements Answer {}

    /** No; {@code retryAfter} null is final. */
    public record Refused(DenialReason reason, Long retryAfter) implements Answer {}

    private record Told(DenialReason reason, long since, long until) {}

    private Phase phase = Phase.CLOSED;
    private long epoch = 1;
    private long since;
    private int level;
    private long openUntil;
    private int good;
    private final List<LocalPermit> leases = new ArrayList<>(1);
    private final Detector detector = new Detector();
    private final Budget budget = new Budget();
    private Told told;

    public LocalRecord(long now) {
        since = now;
    }

    /** Asks for attempt 1. */
    public Answer first(Asked asked, long now) {
        return decide(asked, 1, null, now);
    }

    /** Tells how the attempt before ended, and asks for the next one. */
    public Answer retry(Asked asked, long attempt, Before before, boolean isRepeatable, long now) {
        note(asked.policy(), asked.mode(), attempt, before, now);
        Refused kept = kept(asked.mode(), now);
        if (kept != null) {
            return kept;
        }
        Optional<DenialReason> settled =
                OwnWords.retry(
                        attempt, asked.policy().maxAttempts(), isRepeatable, before.outcome());
        if (settled.isPresent()) {
            return new Refused(settled.get(), null);
        }
        return decide(asked, attempt, before, now);
    }

    /** How the attempt before the {@code attempt}th ended, whatever is made of it. */
    public void note(Policy policy, Mode mode, long attempt, Before before, long now) {
        LocalPermit permit = before.permit();
        if (permit == null && attempt == 2 && before.isNew()) {
            budget.deposit(policy, 1, now);
            if (isWatched(policy, mode)) {
                note(policy, before.outcome(), false, now);
            }
        } else if (permit != null) {
            take(policy, mode, permit, before.outcome(), now);
        }
    }

    /** Asks again, at the end of a delay, for the same attempt. */
    public Answer confirm(Asked asked, LocalPermit permit, long now) {
        if (permit.isVoid) {
            return new Refused(DenialReason.PERMIT_VOID, null);
        }
        Policy policy = asked.policy();
        boolean isLeased = leases.contains(permit) && Nanos.less(now, permit.leaseEnds);
        boolean looks = isWatched(policy, asked.mode()) && !isLeased;
        Refused refused = looks ? lookAtBreaker(asked, now) : null;
        if (refused == null && !Clamp.fits(policy.minAttemptTime(), asked.timeLeft())) {
            refused = new Refused(DenialReason.DEADLINE, null);
        }
        if (refused != null) {
            permit.isVoid = true;
            leases.remove(permit);
            if (permit.tookToken) {
                budget.refund(policy, permit.givenAt, now);
            }
            return refused;
        }
        if (looks && phase != Phase.CLOSED) {
            lease(permit, now);
        }
        permit.epoch = epoch;
        return new Granted(permit, 0, permit.isProbe(), false);
    }

    /** How an attempt ended that is not asked about. */
    public void report(Policy policy, Mode mode, LocalPermit permit, Outcome outcome, long now) {
        take(policy, mode, permit, outcome, now);
    }

    /** The service denied so, for all. */
    public void told(DenialReason reason, Long retryAfter, long now) {
        switch (reason) {
            case BREAKER_OPEN, FORCED_OPEN, HELD, CALLER_FAULT -> {
                long lasts = retryAfter == null ? TOLD_MAX : Nanos.min(retryAfter, TOLD_MAX);
                told = new Told(reason, now, Nanos.add(now, lasts));
            }
            default -> {}
        }
    }

    /** The service grants again. */
    public void letGo(long now) {
        told = null;
        closeOwn(now);
    }

    /** The service let first attempts go at this time. */
    public void letGoAt(long at, long now) {
        if (told != null && Nanos.less(told.since(), at)) {
            told = null;
        }
        if (Nanos.less(since, at)) {
            closeOwn(now);
        }
    }

    /** The fleet lets first attempts go, and this process's own breaker knew less. */
    private void closeOwn(long now) {
        if (phase != Phase.CLOSED) {
            level = 0;
            enter(Phase.CLOSED, now);
        }
    }

    private Answer decide(Asked asked, long attempt, Before before, long now) {
        Policy policy = asked.policy();
        Refused refused = kept(asked.mode(), now);
        boolean isWatched = isWatched(policy, asked.mode());
        if (refused == null && isWatched) {
            refused = lookAtBreaker(asked, now);
        }
        if (refused != null) {
            return refused;
        }
        boolean isProbe = isWatched && phase != Phase.CLOSED;
        long pushback = before == null ? 0 : pushback(before.outcome());
        refused = lookAtPushback(asked, pushback, isProbe);
        if (refused != null) {
            return refused;
        }
        long retry = before == null ? 0 : retryNumber(before, attempt);
        long delay = isProbe || before == null ? 0 : delay(asked, retry, before, pushback);
        if (!Clamp.fits(Nanos.add(delay, policy.minAttemptTime()), asked.timeLeft())) {
            return new Refused(DenialReason.DEADLINE, null);
        }
        if (before != null && !budget.level(policy, now).hasRoom()) {
            return new Refused(DenialReason.BUDGET_EXHAUSTED, null);
        }
        return grant(policy, delay, retry, isProbe, now);
    }

    private Granted grant(Policy policy, long delay, long retry, boolean isProbe, long now) {
        boolean isRetry = retry > 0;
        if (isRetry) {
            budget.withdraw(policy, now);
        } else {
            budget.deposit(policy, 1, now);
        }
        LocalPermit permit = new LocalPermit(epoch, now, delay, retry, isRetry);
        if (isProbe) {
            lease(permit, now);
        }
        boolean confirm = Nanos.less(CONFIRM_ABOVE, delay);
        return new Granted(permit, delay, isProbe, confirm);
    }

    private void lease(LocalPermit permit, long now) {
        if (phase == Phase.OPEN) {
            enter(Phase.HALF_OPEN, now);
            good = 0;
        }
        permit.epoch = epoch;
        permit.leaseEnds = Nanos.add(now, PROBE_LEASE);
        leases.removeIf(old -> !Nanos.less(now, old.leaseEnds));
        leases.add(permit);
    }

    /** Whether there is a breaker. */
    private static boolean isWatched(Policy policy, Mode mode) {
        return mode != Mode.RETRIES_ONLY && !policy.breakerOff();
    }

    private Refused kept(Mode mode, long now) {
        if (mode != Mode.ALL || told == null) {
            return null;
        }
        if (!Nanos.less(now, told.until())) {
            told = null;
            return null;
        }
        return new Refused(told.reason(), told.until() - now);
    }

    /** Null: closed, or this would be a probe. */
    private Refused lookAtBreaker(Asked asked, long now) {
        double spread = asked.sample().spread();
        if (phase == Phase.CLOSED) {
            return null;
        }
        if (phase == Phase.OPEN && Nanos.less(now, openUntil)) {
            long wait = Nanos.add(openUntil - now, Nanos.part(SPREAD, spread));
            return new Refused(DenialReason.BREAKER_OPEN, wait);
        }
        for (LocalPermit leased : leases) {
            if (Nanos.less(now, leased.leaseEnds)) {
                long left = Nanos.add(leased.leaseEnds - now, SPREAD);
                long wait = Nanos.max(Nanos.part(left, spread), Nanos.MILLISECOND);
                return new Refused(DenialReason.PROBE_IN_PROGRESS, wait);
            }
        }
        return null;
    }

    private static Refused lookAtPushback(Asked asked, long pushback, boolean isProbe) {
        Policy policy = asked.policy();
        boolean isTooLong = Nanos.less(policy.pushbackMax(), pushback);
        if (!isTooLong && !(isProbe && pushback != 0)) {
            return null;
        }
        long spread = Nanos.part(policy.pushbackSpread(), asked.sample().spread());
        DenialReason reason = isTooLong ? DenialReason.PUSHBACK_TOO_LONG : DenialReason.HELD;
        return new Refused(reason, Nanos.add(pushback, spread));
    }

    private static long retryNumber(Before before, long attempt) {
        Outcome outcome = before.outcome();
        if (outcome.pushback().isPresent() && outcome.isBackoffRestarted()) {
            return 1;
        }
        return before.permit() == null ? attempt - 1 : before.permit().retry + 1;
    }

    private static long delay(Asked asked, long retry, Before before, long pushback) {
        long previous = before.permit() == null ? 0 : before.permit().delay;
        Sample sample = asked.sample();
        long delay = Backoff.delay(asked.policy(), retry, previous, sample.jitter());
        return Pushback.floor(asked.policy(), delay, pushback, sample.spread());
    }

    private static long pushback(Outcome outcome) {
        return outcome.pushback().map((Duration wait) -> Nanos.of(wait)).orElse(0L);
    }

    /** Once, and only in the epoch in which the attempt was granted. */
    private void take(Policy policy, Mode mode, LocalPermit permit, Outcome outcome, long now) {
        if (permit.isTold || permit.isVoid) {
            return;
        }
        permit.isTold = true;
        boolean wasLeased = leases.remove(permit);
        boolean isLive = wasLeased && Nanos.less(now, permit.leaseEnds);
        boolean isLate = permit.isProbe() && !isLive;
        if (isWatched(policy, mode) && permit.epoch == epoch && !isLate) {
            note(policy, outcome, isLive, now);
        }
    }

    private void note(Policy policy, Outcome outcome, boolean isProbe, long now) {
        boolean isBad =
                switch (outcome.kind()) {
                    case FAILURE, TIMEOUT, NOT_SENT -> true;
                    case SUCCESS, THROTTLED, REJECTED, IGNORED, CANCELLED -> false;
                };
        boolean isGood = outcome.kind() == OutcomeKind.SUCCESS;
        if (!isBad && !isGood) {
            return;
        }
        if (phase == Phase.HALF_OPEN && isProbe) {
            judgeProbe(policy, isGood, now);
        } else if (phase == Phase.CLOSED && detector.record(isGood ? 1 : 0, isBad ? 1 : 0, now)) {
            if (!Nanos.less(Nanos.subtract(now, since), HEALTHY_RESET)) {
                level = 0;
            }
            open(policy, now);
        }
    }

    private void judgeProbe(Policy policy, boolean isGood, long now) {
        if (!isGood) {
            open(policy, now);
            return;
        }
        good++;
        if (good >= PROBE_SUCCESSES) {
            enter(Phase.CLOSED, now);
        }
    }

    private void open(Policy policy, long now) {
        double period = Nanos.toDouble(policy.openFor());
        for (int times = 0; times < Math.min(level, LEVELS_MAX); times++) {
            period *= policy.openMultiplier();
        }
        openUntil = Nanos.add(now, Nanos.min(Nanos.ofDouble(period), policy.openMax()));
        level++;
        enter(Phase.OPEN, now);
    }

    private void enter(Phase next, long now) {
        phase = next;
        epoch++;
        since = now;
        detector.clear();
    }
}
