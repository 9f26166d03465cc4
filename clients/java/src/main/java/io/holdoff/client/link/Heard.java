package io.holdoff.client.link;

import io.holdoff.client.Denied;
import io.holdoff.client.DenialReason;
import io.holdoff.client.DeniedBy;
import io.holdoff.client.rules.Nanos;
import io.holdoff.client.rules.Policy;
import io.holdoff.client.v1.ClientPolicy;
import io.holdoff.client.v1.OfflineAllowance;
import io.holdoff.client.v1.Update;
import java.util.Objects;
import java.util.Optional;

/**
 * One update, read. It is never mended by a default that lets a call go: what cannot be read is
 * "ask".
 */
final class Heard {
    /** Nothing is relied on for longer without being said again. */
    private static final long VALID_MAX = 300 * Nanos.SECOND;

    private static final int CLOSED = 1;
    private static final int OPEN = 2;
    private static final int FORCED_OPEN = 5;
    private static final int FORCED_CLOSED = 6;

    private static final int GO = 1;
    private static final int ASK = 2;
    private static final int REFUSE = 3;

    private final int state;
    private final int firstAttempts;
    private final long validUntil;

    final OnState on;
    final Policy policy;

    /** When first attempts were last let go; null: never. */
    final Long letGoAt;

    /** What the policy was read from, which is the same most of the time. */
    private final ClientPolicy saidPolicy;

    private final OfflineAllowance saidAllowance;
    private final Word.Go go;

    private Heard(Update update, Heard before, Policy own, long now) {
        state = update.getStateValue();
        firstAttempts = firstAttempts(update);
        validUntil = Nanos.add(now, validFor(update));
        saidPolicy = update.hasPolicy() ? update.getPolicy() : null;
        saidAllowance = update.hasOfflineAllowance() ? update.getOfflineAllowance() : null;
        boolean isSame =
                before != null
                        && Objects.equals(before.saidPolicy, saidPolicy)
                        && Objects.equals(before.saidAllowance, saidAllowance);
        policy = isSame ? before.policy : PolicyReader.read(saidPolicy, saidAllowance, own);
        on = new OnState(update.getEpoch(), policy.slowAfter());
        go = new Word.Go(on);
        letGoAt = letGoAt(before, now);
    }

    static Heard read(Update update, Heard before, Policy own, long now) {
        return new Heard(update, before, own, now);
    }

    /** What to do with a first attempt now. */
    Word word(long now) {
        if (!isValid(now)) {
            return Word.ASK;
        }
        return switch (firstAttempts) {
            case GO -> go;
            case REFUSE -> new Word.Refuse(denied(now));
            default -> Word.ASK;
        };
    }

    /** Why an attempt granted in {@code epoch} may not be made any more. */
    Optional<Denied> trippedSince(long epoch, long attempt, long now) {
        boolean binds = attempt > 1 || firstAttempts == REFUSE;
        boolean isLater = Long.compareUnsigned(on.epoch(), epoch) > 0;
        boolean hasTripped = isOpen() && isLater && isValid(now) && binds;
        return hasTripped ? Optional.of(denied(now)) : Optional.empty();
    }

    /** Whether this stands for a confirmation of what was granted in {@code epoch}. */
    boolean standsBy(long epoch, long now) {
        boolean isClosed = state == CLOSED || state == FORCED_CLOSED;
        return isClosed && on.epoch() == epoch && firstAttempts != REFUSE && isValid(now);
    }

    /** Why there is no retry of an attempt that was made on the state of {@code epoch}. */
    Optional<Denied> refusedSince(long epoch, long now) {
        boolean refuses = isOpen() || firstAttempts == REFUSE;
        boolean isLater = Long.compareUnsigned(on.epoch(), epoch) > 0;
        return refuses && isLater && isValid(now) ? Optional.of(denied(now)) : Optional.empty();
    }

    /**
     * Why a question that the service does not answer is denied all the same: what it said before
     * still stands.
     *
     * @param isExtra a retry or a hedge is asked about
     * @param since only what was said in this epoch or later counts; null: all
     */
    Optional<Denied> refusedAlone(boolean isExtra, Long since, long now) {
        boolean refuses = isOpen() || firstAttempts == REFUSE;
        boolean isLetGo = !isExtra && firstAttempts == GO;
        boolean isLate = since != null && Long.compareUnsigned(on.epoch(), since) < 0;
        boolean stands = refuses && !isLetGo && !isLate && isValid(now);
        return stands ? Optional.of(denied(now)) : Optional.empty();
    }

    /** Clients that share the allowance; 0: it was not said. */
    long knownClients() {
        return saidAllowance == null
                ? 0
                : Integer.toUnsignedLong(saidAllowance.getKnownClients());
    }

    private boolean isOpen() {
        return state == OPEN || state == FORCED_OPEN;
    }

    private boolean isValid(long now) {
        return Nanos.less(now, validUntil);
    }

    /** A refusal that nobody explains otherwise is a hold. */
    private Denied denied(long now) {
        DenialReason reason =
                switch (state) {
                    case OPEN -> DenialReason.BREAKER_OPEN;
                    case FORCED_OPEN -> DenialReason.FORCED_OPEN;
                    default -> DenialReason.HELD;
                };
        var left = Nanos.toDuration(Nanos.subtract(validUntil, now));
        String detail = "as pushed to this client; ask again in " + left.toMillis() + " ms";
        return new Denied(reason, DeniedBy.FLEET, Optional.of(left), detail);
    }

    /** A state that this client does not know may mean anything, so it asks. */
    private static int firstAttempts(Update update) {
        int said = update.getFirstAttemptsValue();
        boolean isKnown = update.getStateValue() >= CLOSED && update.getStateValue() <= FORCED_CLOSED;
        return isKnown && said >= GO && said <= REFUSE ? said : ASK;
    }

    private static long validFor(Update update) {
        try {
            return Nanos.min(Wire.readDuration(update.getValidFor()), VALID_MAX);
        } catch (Wire.OddDuration odd) {
            return 0;
        }
    }

    private Long letGoAt(Heard before, long now) {
        if (firstAttempts == GO) {
            return now;
        }
        return before == null ? null : before.letGoAt;
    }
}
