package io.holdoff.client;

import io.holdoff.client.link.OnState;
import io.holdoff.client.rules.Clamp;
import io.holdoff.client.rules.Nanos;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReferenceFieldUpdater;

/**
 * Permission for one attempt, in two steps: {@link #await} before it, {@link #report} or {@link
 * #retry} after it. Closed unreported, the attempt counts as cancelled.
 *
 * <pre>{@code
 * try (Permit permit = holdoff.acquire("search").await()) {
 *     search();
 *     permit.report(Outcome.success());
 * }
 * }</pre>
 */
public final class Permit implements Decision, AutoCloseable {
    /** Confirmations and renewals before one attempt; a service that wants more is ill. */
    private static final int ROUNDS_MAX = 100;

    /** Shorter delays are not looked over for a suspended machine. */
    private static final long LONG_DELAY = Nanos.SECOND;

    final Asking asking;
    private final Core core;

    private static final AtomicReferenceFieldUpdater<Permit, Made> MADE =
            AtomicReferenceFieldUpdater.newUpdater(Permit.class, Made.class, "made");

    /** Null: reported, or void. */
    private volatile Made made;

    /** Taken before the question was sent, so that a lease never seems longer than it is. */
    private long askedAt;

    private long usableAt;

    /** From {@code usableAt}. Null: it does not end. */
    private Long lives;

    private boolean isProbe;
    private boolean confirm;
    private final Long suggestedTimeout;

    /** In which the service granted it. Null: it did not. */
    private Long epoch;

    /** There is nothing to wait for. */
    private boolean isAtOnce;

    /** How long the machine had been suspended when it was granted; -1: not looked at. */
    private long slept = -1;

    private Permit(Asking asking, Terms terms, long askedAt, long now) {
        this.asking = asking;
        this.core = asking.core;
        this.made = terms.made();
        this.askedAt = askedAt;
        this.usableAt = now + Clamp.delay(terms.delay());
        this.lives = terms.lives();
        this.isProbe = terms.isProbe();
        this.confirm = terms.confirm();
        this.suggestedTimeout = terms.suggestedTimeout();
        this.epoch = terms.epoch();
        if (usableAt - now > LONG_DELAY) {
            slept = core.clock().look();
        }
        noteEpoch();
    }

    /** A delay that does not fit the deadline is not shortened: the permit goes back. */
    static Decision granted(Asking asking, Terms terms, long askedAt) {
        Permit permit = new Permit(asking, terms, askedAt, System.nanoTime());
        Optional<Denied> tooLate = asking.tooLate(terms.delay());
        return tooLate.isPresent() ? permit.giveUp(tooLate.get()) : permit;
    }

    /** No delay, no end: the clock need not be read again. */
    private Permit(Asking asking, OnState on, long now) {
        this.asking = asking;
        this.core = asking.core;
        this.made = new Made.OnPushed(on);
        this.suggestedTimeout = null;
        this.usableAt = now;
        this.isAtOnce = true;
    }

    static Permit onState(Asking asking, OnState on, long now) {
        return new Permit(asking, on, now);
    }

    /**
     * Which attempt it is for.
     *
     * @return 1 for the first call
     */
    public int attempt() {
        return asking.attempt;
    }

    /**
     * How long to wait before the attempt, from now. {@link #await} does it.
     *
     * @return zero where it may be made now
     */
    public Duration delay() {
        return isAtOnce
                ? Duration.ZERO
                : Duration.ofNanos(Math.max(0, usableAt - System.nanoTime()));
    }

    /**
     * Whether the attempt tests a dependency that is thought broken.
     *
     * @return true where it does
     */
    public boolean isProbe() {
        return isProbe;
    }

    /**
     * Whether it was granted without the service.
     *
     * @return true where this process has decided alone
     */
    public boolean isLocal() {
        return made instanceof Made.Local;
    }

    /**
     * A limit for the attempt that the service finds sensible; it does not bind.
     *
     * @return empty where none is known
     */
    public Optional<Duration> suggestedTimeout() {
        return Optional.ofNullable(suggestedTimeout).map(Nanos::toDuration);
    }

    /**
     * How long the attempt may take from now: to the caller's deadline and limit, and for a probe
     * to a margin before its lease ends.
     *
     * @return empty where nothing limits it
     */
    public Optional<Duration> limit() {
        Long limit = limitNanos();
        return limit == null ? Optional.empty() : Optional.of(Duration.ofNanos(limit));
    }

    /** Null: nothing limits it. */
    Long limitNanos() {
        Long limit = asking.timeLeft();
        Optional<Duration> own = asking.question.attemptTimeout();
        if (own.isPresent()) {
            limit = smaller(limit, Nanos.min(Nanos.of(own.get()), Long.MAX_VALUE));
        }
        if (isProbe && lives != null) {
            long used = System.nanoTime() - askedAt;
            long use = Nanos.min(Clamp.useOfLease(lives), Long.MAX_VALUE);
            limit = smaller(limit, Math.max(0, use - used));
        }
        return limit;
    }

    private static Long smaller(Long limit, long other) {
        return limit == null ? other : Math.min(limit, other);
    }

    /**
     * Waits for the delay, and makes sure that the permit still holds then: drops it as soon as
     * the service pushes that the breaker has tripped, and asks once more where the grant said so
     * and no valid state is known, and after a suspend.
     *
     * @return this permit, or another one in its place
     * @throws DeniedException it holds no more, or the deadline has passed
     * @throws InterruptedException the permit was given back
     */
    public Permit await() throws InterruptedException {
        return permit(hold(), attempt() - 1);
    }

    /**
     * The same without blocking a thread.
     *
     * @return this permit, or another one in its place; ends with a {@link DeniedException} where
     *     there is none
     */
    public CompletableFuture<Permit> awaitAsync() {
        Pending pending = new Pending();
        int made = attempt() - 1;
        return Later.shown(core, pending, holdLater(pending, 0), made);
    }

    /**
     * Says how the attempt ended. The call is over with it.
     *
     * @param outcome of the attempt; a second one is not heard
     */
    public void report(Outcome outcome) {
        asking.noteOutcome(outcome);
        Made ended = MADE.getAndSet(this, null);
        if (ended != null) {
            core.countIfLost(asking.question.dependency(), ended, outcome);
            core.report(asking.question.dependency(), ended, outcome);
        }
    }

    /**
     * Says how the attempt ended and asks for the next one.
     *
     * @param outcome of the attempt
     * @return permission for the next one
     * @throws DeniedException there is no next attempt
     * @throws InterruptedException the caller gave it up
     */
    public Permit retry(Outcome outcome) throws InterruptedException {
        Asking next = next(outcome);
        Decision said = next == null ? usedUp() : next.ask();
        if (next != null) {
            next.tell();
        }
        return permit(said, attempt());
    }

    /**
     * The same without blocking a thread.
     *
     * @param outcome of the attempt
     * @return permission for the next one; ends with a {@link DeniedException} where there is none
     */
    public CompletableFuture<Permit> retryAsync(Outcome outcome) {
        Asking next = next(outcome);
        Pending pending = new Pending();
        CompletableFuture<Decision> asked =
                next == null
                        ? CompletableFuture.completedFuture(usedUp())
                        : next.askLater(pending).whenComplete((said, fault) -> next.tell());
        return Later.shown(core, pending, asked, attempt());
    }

    /**
     * Asks for a second copy of this attempt, which goes on meanwhile.
     *
     * @return permission for the copy, at once
     * @throws DeniedException there is none; the original is not touched
     * @throws InterruptedException the caller gave it up
     */
    public Permit hedge() throws InterruptedException {
        return permit(asking.hedge().ask(), attempt());
    }

    /** Reports the attempt as cancelled, unless it was reported. */
    @Override
    public void close() {
        report(Outcome.cancelled());
    }

    /** Null: it was reported already. */
    Asking next(Outcome outcome) {
        Made ended = MADE.getAndSet(this, null);
        return ended == null ? null : asking.next(ended, outcome);
    }

    /** By {@link System#nanoTime}: the attempt is made now. */
    long begins() {
        return isAtOnce ? usableAt : System.nanoTime();
    }

    /** From the end of its delay. Null: it does not end. */
    Long lives() {
        return lives;
    }

    Attempt describe() {
        return new Attempt(attempt(), limit(), suggestedTimeout(), isProbe, isLocal());
    }

    static Permit permit(Decision said, int attempts) {
        if (said instanceof Permit permit) {
            return permit;
        }
        throw new DeniedException(((Decision.No) said).denied(), attempts);
    }

    private static Decision usedUp() {
        return new Decision.No(Denied.byCaller(DenialReason.PERMIT_VOID, "it was reported before"));
    }

    private Decision giveUp(Denied denied) {
        close();
        return new Decision.No(denied);
    }

    /** Until the attempt may be made. */
    Decision hold() throws InterruptedException {
        if (isAtOnce) {
            return this;
        }
        Permit permit = this;
        for (int round = 0; round < ROUNDS_MAX; round++) {
            try {
                Decision said = permit.oneRound();
                if (said != null) {
                    return said;
                }
                if (permit.isOver()) {
                    permit.close();
                    Decision again = permit.asking.ask();
                    if (!(again instanceof Permit renewed)) {
                        return again;
                    }
                    permit = renewed;
                }
            } catch (InterruptedException givenUp) {
                permit.close();
                throw givenUp;
            }
        }
        return permit.giveUp(tooManyRounds());
    }

    /** Null: once more. */
    private Decision oneRound() throws InterruptedException {
        Denied dropped = sleep();
        Decision said = dropped == null ? afterDelay() : giveUp(dropped);
        if (said != null || isOver()) {
            return said;
        }
        long now = System.nanoTime();
        return confirmed(asking.confirm(made, epoch), now);
    }

    /** The same without blocking a thread. */
    CompletableFuture<Decision> holdLater(Pending pending, int round) {
        if (isAtOnce) {
            return CompletableFuture.completedFuture(this);
        }
        if (round >= ROUNDS_MAX) {
            return CompletableFuture.completedFuture(giveUp(tooManyRounds()));
        }
        return sleepLater(pending)
                .thenCompose(dropped -> afterSleep(dropped, pending))
                .thenCompose(
                        said ->
                                said.isPresent()
                                        ? CompletableFuture.completedFuture(said.get())
                                        : anotherRound(pending, round));
    }

    private CompletableFuture<Optional<Decision>> afterSleep(
            Optional<Denied> dropped, Pending pending) {
        Decision said;
        if (pending.isCancelled()) {
            said = giveUp(Denied.byCaller(DenialReason.CANCELLED, ""));
        } else {
            said = dropped.isEmpty() ? afterDelay() : giveUp(dropped.get());
        }
        if (said != null || isOver()) {
            return CompletableFuture.completedFuture(Optional.ofNullable(said));
        }
        long now = System.nanoTime();
        return asking.confirmLater(made, epoch, pending)
                .thenApply(confirmed -> Optional.ofNullable(confirmed(confirmed, now)));
    }

    private CompletableFuture<Decision> anotherRound(Pending pending, int round) {
        if (!isOver()) {
            return holdLater(pending, round + 1);
        }
        close();
        return asking.askLater(pending)
                .thenCompose(
                        again ->
                                again instanceof Permit renewed
                                        ? renewed.holdLater(pending, round + 1)
                                        : CompletableFuture.completedFuture(again));
    }

    private static Denied tooManyRounds() {
        String detail = "the service went on to ask for confirmations";
        return Denied.byCaller(DenialReason.UNREADABLE, detail);
    }

    /** Null: it is over, or to be confirmed. */
    private Decision afterDelay() {
        heedSuspend();
        Optional<Denied> tooLate = asking.tooLate(0);
        if (tooLate.isPresent()) {
            return giveUp(tooLate.get());
        }
        if (isOver()) {
            return null;
        }
        noteEpoch();
        return !confirm || isKnownToHold() ? this : null;
    }

    /** Null: it has a delay again. */
    private Decision confirmed(Object said, long now) {
        confirm = false;
        if (said instanceof Unconfirmed unconfirmed) {
            return giveUp(unconfirmed.denied());
        }
        if (said instanceof Denied denied) {
            // The permit is void.
            made = null;
            return giveUp(denied);
        }
        if (said == Terms.KEPT) {
            return this;
        }
        return renew((Terms) said, now);
    }

    private Decision renew(Terms terms, long now) {
        boolean isNew = !(terms.made() instanceof Made.Fleet fleet) || !fleet.permit().isEmpty();
        if (isNew) {
            made = terms.made();
        }
        askedAt = now;
        usableAt = System.nanoTime() + Clamp.delay(terms.delay());
        lives = terms.lives() == null ? lives : terms.lives();
        epoch = terms.epoch() == null ? epoch : terms.epoch();
        isProbe = terms.isProbe();
        confirm = terms.confirm() && terms.delay() != 0;
        noteEpoch();
        Optional<Denied> tooLate = asking.tooLate(terms.delay());
        if (tooLate.isPresent()) {
            return giveUp(tooLate.get());
        }
        return confirm || usableAt - System.nanoTime() > 0 ? null : this;
    }

    /** The monotonic clock stood still while the machine slept: all ends come earlier. */
    private void heedSuspend() {
        if (slept < 0) {
            return;
        }
        long since = core.clock().look() - slept;
        if (since > 0) {
            slept += since;
            asking.heedSuspend(since);
            usableAt -= since;
            askedAt -= since;
        }
    }

    private boolean isOver() {
        long late = Math.max(0, System.nanoTime() - usableAt);
        return lives != null && !Nanos.less(late, lives);
    }

    /** What the service pushes stands for a confirmation. */
    private boolean isKnownToHold() {
        return core.link() != null
                && epoch != null
                && core.link().pushed().standsBy(asking.question.dependency(), epoch);
    }

    /** Null: there is nothing to wait for. */
    private Delay delayLeft() {
        long nanos = usableAt - System.nanoTime();
        boolean mayTrip = core.link() != null && epoch != null;
        return nanos <= 0 ? null : new Delay(core, nanos, mayTrip ? this::tripped : null);
    }

    private Optional<Denied> tripped() {
        String dependency = asking.question.dependency();
        return core.link().pushed().trippedSince(dependency, epoch, attempt());
    }

    /**
     * The attempt is made now, as far as is known here: what was decided locally belongs to the
     * epoch that the service has pushed by now.
     */
    private void noteEpoch() {
        if (made instanceof Made.Local own) {
            long last = core.last(asking.question.dependency()).epoch();
            MADE.compareAndSet(this, own, new Made.Local(own.permit(), last));
        }
    }

    /** Why it was dropped before the end of its delay; null: the delay is over. */
    private Denied sleep() throws InterruptedException {
        Delay delay = delayLeft();
        return delay == null ? null : delay.sleep();
    }

    private CompletableFuture<Optional<Denied>> sleepLater(Pending pending) {
        Delay delay = delayLeft();
        return delay == null
                ? CompletableFuture.completedFuture(Optional.empty())
                : delay.sleepLater(pending);
    }
}
