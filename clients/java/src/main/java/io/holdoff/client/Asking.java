package io.holdoff.client;

import com.google.protobuf.ByteString;
import io.holdoff.client.link.Answer;
import io.holdoff.client.link.Ask;
import io.holdoff.client.link.Entropy;
import io.holdoff.client.link.NoAnswer;
import io.holdoff.client.link.Wire;
import io.holdoff.client.link.Word;
import io.holdoff.client.rules.Clamp;
import io.holdoff.client.rules.LocalRecord;
import io.holdoff.client.rules.Nanos;
import io.holdoff.client.rules.OwnWords;
import io.holdoff.client.v1.AcquireRequest;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * One question about one attempt: what needs no service, then what the service has pushed, then
 * the service, then what this process knows itself.
 *
 * <p>The service is not asked what follows from the caller's own words: its limit of attempts, its
 * deadline, an unsafe call that may have been executed, an outcome that a retry cannot mend. So a
 * wrong answer cannot make a caller do harm, either.
 */
final class Asking {
    final Core core;
    final Question question;
    final int attempt;
    private final boolean isHedge;

    /** By {@link System#nanoTime}; null: there is none. */
    private Long deadline;

    private CallId callId;

    /** Null: this is the first. */
    private final Before before;

    /** The dependency has told an attempt of this call not to retry. */
    private final AtomicBoolean hedgesAreOver;

    private Asking(
            Core core,
            Question question,
            int attempt,
            boolean isHedge,
            Long deadline,
            CallId callId,
            Before before,
            AtomicBoolean hedgesAreOver) {
        this.core = core;
        this.question = question;
        this.attempt = attempt;
        this.isHedge = isHedge;
        this.deadline = deadline;
        this.callId = callId;
        this.before = before;
        this.hedgesAreOver = hedgesAreOver;
    }

    static Asking first(Core core, Question question) {
        Duration left = question.deadline();
        // A deadline beyond all clocks is none.
        long nanos = left == null ? -1 : Nanos.of(left);
        boolean isEndless = left == null || nanos < 0 || nanos > Long.MAX_VALUE / 4;
        Long deadline = isEndless ? null : (Long) (System.nanoTime() + nanos);
        CallId id = CallId.of(question.callId());
        return new Asking(core, question, 1, false, deadline, id, null, new AtomicBoolean());
    }

    /** About the attempt after this one, which ended so. */
    Asking next(Made made, Outcome outcome) {
        noteOutcome(outcome);
        int following = attempt == Integer.MAX_VALUE ? attempt : attempt + 1;
        Before ended = new Before(core, question.dependency(), made, outcome);
        return new Asking(
                core, question, following, false, deadline, callId, ended, hedgesAreOver);
    }

    /** About a second copy of this attempt. */
    Asking hedge() {
        return new Asking(core, question, attempt, true, deadline, callId, null, hedgesAreOver);
    }

    /** As a call of its own, unless the caller has named it. */
    void rename() {
        callId = CallId.of(question.callId());
    }

    void noteOutcome(Outcome outcome) {
        if (outcome.isRetryForbidden()) {
            hedgesAreOver.set(true);
        }
    }

    /** Null: there is no deadline. */
    Long timeLeft() {
        return deadline == null ? null : (Long) Math.max(0, deadline - System.nanoTime());
    }

    /** The machine slept, and no clock but the wall's has counted it. */
    void heedSuspend(long slept) {
        deadline = deadline == null ? null : (Long) (deadline - slept);
    }

    Decision ask() throws InterruptedException {
        Decision decided = withoutAsking();
        if (decided != null) {
            return decided;
        }
        try {
            long begun = System.nanoTime();
            Delay hold = holdBack();
            Denied answered = hold == null ? null : hold.sleep();
            decided = hold == null ? null : afterHold(answered);
            if (decided != null) {
                return decided;
            }
            long askedAt = System.nanoTime();
            return settle(answer(null), askedAt, hold == null ? 0 : askedAt - begun);
        } catch (InterruptedException givenUp) {
            tellAfter(NoAnswer.Kind.GIVEN_UP);
            throw givenUp;
        }
    }

    /** The same without blocking a thread. Completed by any thread. */
    CompletableFuture<Decision> askLater(Pending pending) {
        Decision decided = withoutAsking();
        if (decided != null) {
            return CompletableFuture.completedFuture(decided);
        }
        long begun = System.nanoTime();
        Delay hold = holdBack();
        if (hold == null) {
            return answerLater(null, pending).thenApply(answer -> settle(answer, begun, 0));
        }
        return hold.sleepLater(pending)
                .thenCompose(
                        answered -> {
                            Decision said = afterHold(answered.orElse(null));
                            if (said != null) {
                                return CompletableFuture.completedFuture(said);
                            }
                            long askedAt = System.nanoTime();
                            return answerLater(null, pending)
                                    .thenApply(answer -> settle(answer, askedAt, askedAt - begun));
                        });
    }

    /**
     * A huge fleet that fails at one instant does not ask at one instant: the first question after
     * a failure of an attempt made on pushed state is held back by a time of its own, and those
     * whom a trip reaches meanwhile need not ask any more. None is while the service is known to
     * be away: nobody waits for whom nobody asks. Null: ask at once.
     */
    private Delay holdBack() {
        String dependency = question.dependency();
        if (before == null || core.link() == null) {
            return null;
        }
        long clients = core.link().pushed().knownClients(dependency);
        if (clients <= Clamp.AT_ONCE || !core.link().isAsked()) {
            return null;
        }
        Long epoch = before.epochToHoldBack();
        if (epoch == null) {
            return null;
        }
        long nanos = Clamp.heldBack(clients, timeLeft(), Entropy.unit());
        return new Delay(core, nanos, () -> core.link().pushed().refusedSince(dependency, epoch));
    }

    /** Null: the question is to be asked. */
    private Decision afterHold(Denied answered) {
        if (answered != null) {
            core.counting().pushedDenials.increment();
            before.isOvertaken();
            return new Decision.No(answered);
        }
        return tooLate(0)
                .map(
                        late -> {
                            tell();
                            return new Decision.No(late);
                        })
                .orElse(null);
    }

    /**
     * Whether an attempt that was granted in this epoch may still be made, just before it is: new
     * {@link Terms}, {@link Denied}, {@link Unconfirmed}, or {@link Terms#KEPT}, where nobody says
     * that it may not.
     */
    Object confirm(Made made, Long epoch) throws InterruptedException {
        if (made instanceof Made.Fleet fleet) {
            return confirmed(answer(fleet.permit()), epoch);
        }
        return confirmHere(made);
    }

    /** The same without blocking a thread. */
    CompletableFuture<Object> confirmLater(Made made, Long epoch, Pending pending) {
        if (made instanceof Made.Fleet fleet) {
            return answerLater(fleet.permit(), pending)
                    .thenApply(answer -> confirmed(answer, epoch));
        }
        return CompletableFuture.completedFuture(confirmHere(made));
    }

    private Object confirmHere(Made made) {
        if (!(made instanceof Made.Local own)) {
            // On pushed state there was no delay, so that there is nothing to confirm.
            return Terms.KEPT;
        }
        Optional<Denied> refused = refusedAlone(null);
        return refused.isPresent()
                ? new Unconfirmed(refused.get())
                : decided(core.local().confirm(question.dependency(), timeLeft(), own.permit()));
    }

    private Object confirmed(Answer answer, Long epoch) {
        if (answer instanceof Answer.Grant grant) {
            return Terms.of(grant);
        }
        if (answer instanceof Answer.Denial denial) {
            remember(denial);
            return Denied.of(denial);
        }
        NoAnswer why = ((Answer.None) answer).why();
        if (why.kind() == NoAnswer.Kind.NO_DELAY) {
            return new Unconfirmed(
                    Denied.of(DeniedBy.FLEET, DenialReason.UNREADABLE, why.detail()));
        }
        Optional<Denied> refused = refusedAlone(epoch);
        if (refused.isPresent()) {
            return new Unconfirmed(refused.get());
        }
        boolean denies = core.onNoDecision() == OnNoDecision.DENY;
        return denies ? new Unconfirmed(undecided()) : Terms.KEPT;
    }

    /**
     * The service gives no answer, and does not need to: what it has pushed, in this epoch or
     * later, still stands.
     *
     * @param since null: whenever
     */
    private Optional<Denied> refusedAlone(Long since) {
        if (core.link() == null) {
            return Optional.empty();
        }
        Optional<Denied> refused =
                core.link().pushed().refusedAlone(question.dependency(), isExtra(), since);
        refused.ifPresent(denied -> core.counting().pushedDenials.increment());
        return refused;
    }

    /** More attempts than the policy allows are refused for that, since it is final. */
    private boolean isExhausted() {
        int max = core.local().policy(question.dependency()).maxAttempts();
        return isExtra() && max != 0 && attempt > max;
    }

    /** What the attempt before showed counts for this process, whoever has answered. */
    private void noteHere() {
        if (before != null && core.onNoDecision() != OnNoDecision.DENY) {
            core.local().note(question.dependency(), attempt, before.here());
        }
    }

    /** A retry or a hedge: what nobody needs for the call to be made at all. */
    private boolean isExtra() {
        return attempt > 1 || isHedge;
    }

    /** Null: somebody is to be asked. */
    private Decision withoutAsking() {
        Optional<Denied> settled = settled();
        if (settled.isPresent()) {
            tell();
            return new Decision.No(settled.get());
        }
        return isExtra() || core.link() == null ? null : onPushedState();
    }

    private Optional<Denied> settled() {
        if (deadline != null && OwnWords.time(timeLeft()).isPresent()) {
            String detail = "the caller's deadline has passed";
            return Optional.of(Denied.byCaller(DenialReason.DEADLINE, detail));
        }
        if (isHedge && (!question.isRepeatable() || hedgesAreOver.get())) {
            String detail = "it may do harm, or the dependency said: do not retry";
            return Optional.of(Denied.byCaller(DenialReason.HEDGE_REFUSED, detail));
        }
        if (before == null) {
            return Optional.empty();
        }
        int max = question.maxAttempts();
        return OwnWords.retry(attempt, max, question.isRepeatable(), before.outcome())
                .map(reason -> Denied.byCaller(reason, detail(reason)));
    }

    private String detail(DenialReason reason) {
        return switch (reason) {
            case ATTEMPTS_EXHAUSTED -> "the caller allows " + question.maxAttempts();
            case RETRY_UNSAFE ->
                    "it may have been executed, and is neither idempotent nor keyed";
            default -> "";
        };
    }

    private Decision onPushedState() {
        long now = System.nanoTime();
        Word word = core.link().pushed().word(question.dependency(), core.clock().at(now));
        if (word instanceof Word.Go && core.countsAlone()) {
            return letGoAlone(now);
        }
        if (word instanceof Word.Go go) {
            core.counting().pushedGrants.increment();
            return Permit.onState(this, go.on(), now);
        }
        if (word instanceof Word.Refuse refuse) {
            core.counting().pushedDenials.increment();
            return new Decision.No(refuse.denied());
        }
        return null;
    }

    /**
     * The service has let first attempts go, and is away by now. It counts nothing meanwhile: were
     * the attempt its own, what ends well would count nowhere, and what fails here, with the
     * question about the retry. So this process's own record says whether it is made. What the
     * service denied besides does not bind it, as it would not with the service at hand. No
     * question looks for the service where all goes well.
     */
    private Decision letGoAlone(long now) {
        core.link().seek();
        LocalRecord.Answer said = core.local().firstLetGo(question.dependency(), timeLeft());
        return settleHere(decided(said), now, 0);
    }

    private Answer answer(ByteString confirm) throws InterruptedException {
        if (core.link() == null) {
            return new Answer.None(NoAnswer.UNASKED);
        }
        return count(core.link().ask(() -> request(confirm)).await(core.timeout()));
    }

    private CompletableFuture<Answer> answerLater(ByteString confirm, Pending pending) {
        if (core.link() == null) {
            return CompletableFuture.completedFuture(new Answer.None(NoAnswer.UNASKED));
        }
        Ask ask = core.link().ask(() -> request(confirm));
        pending.cancelBy(ask::giveUp);
        return ask.within(core.loop(), core.timeout()).thenApply(this::count);
    }

    private Answer count(Answer answer) {
        boolean isDecided = !(answer instanceof Answer.None);
        (isDecided ? core.counting().answered : core.counting().noDecision).increment();
        return answer;
    }

    AcquireRequest request(ByteString confirm) {
        AcquireRequest.Builder request =
                AcquireRequest.newBuilder()
                        .setDependency(question.dependency())
                        .setAttempt(attempt)
                        .setSafety(Wire.write(question.safety()))
                        .setPriority(Wire.write(question.priority()))
                        .setHedge(isHedge)
                        .setCost(question.cost().orElse(0))
                        .setCallId(callId.toString());
        Long left = timeLeft();
        if (left != null) {
            request.setTimeLeft(Wire.writeNanos(left));
        }
        if (confirm != null) {
            return request.setConfirm(confirm).build();
        }
        return before == null
                ? request.build()
                : request.setPrevious(before.onTheWire()).build();
    }

    /** {@code held}: so much of a delay has passed already. */
    private Decision settle(Answer answer, long askedAt, long held) {
        String dependency = question.dependency();
        if (answer instanceof Answer.Grant grant) {
            told();
            core.local().letGo(dependency);
            return Permit.granted(this, Terms.of(grant).less(held), askedAt);
        }
        if (answer instanceof Answer.Denial denial) {
            told();
            remember(denial);
            return new Decision.No(Denied.of(denial));
        }
        NoAnswer why = ((Answer.None) answer).why();
        tellAfter(why.kind());
        if (why.kind() == NoAnswer.Kind.NO_DELAY && isExtra()) {
            Denied unreadable = Denied.of(DeniedBy.FLEET, DenialReason.UNREADABLE, why.detail());
            return new Decision.No(unreadable);
        }
        if (why.kind() == NoAnswer.Kind.GIVEN_UP) {
            return new Decision.No(Denied.byCaller(DenialReason.CANCELLED, ""));
        }
        Optional<Denied> refused = isExhausted() ? Optional.empty() : refusedAlone(null);
        if (refused.isPresent()) {
            noteHere();
            return new Decision.No(refused.get());
        }
        return settleHere(decideHere(), askedAt, held);
    }

    private Decision settleHere(Object decided, long askedAt, long held) {
        if (decided instanceof Denied denied) {
            core.counting().localDenials.increment();
            return new Decision.No(denied);
        }
        core.counting().localGrants.increment();
        return Permit.granted(this, ((Terms) decided).less(held), askedAt);
    }

    private Object decideHere() {
        if (core.link() != null && core.onNoDecision() == OnNoDecision.DENY) {
            return undecided();
        }
        if (isHedge) {
            String detail = "nobody answers for the fleet";
            return Denied.of(DeniedBy.LOCAL, DenialReason.HEDGE_REFUSED, detail);
        }
        String dependency = question.dependency();
        Long left = timeLeft();
        if (before == null) {
            return decided(core.local().first(dependency, left));
        }
        boolean isRepeatable = question.isRepeatable();
        return decided(
                core.local().retry(dependency, left, attempt, before.here(), isRepeatable));
    }

    private Object decided(LocalRecord.Answer answer) {
        if (answer instanceof LocalRecord.Granted granted) {
            long delay = core.isTesting() ? 0 : granted.delay();
            return Terms.of(granted, delay);
        }
        return Denied.of((LocalRecord.Refused) answer);
    }

    private static Denied undecided() {
        String detail = "the service did not decide, and onNoDecision is DENY";
        return Denied.of(DeniedBy.LOCAL, DenialReason.NO_DECISION, detail);
    }

    /** Why an attempt after such a delay would come too late; empty: it fits. */
    Optional<Denied> tooLate(long delay) {
        Long left = timeLeft();
        if (Clamp.fits(delay, left)) {
            return Optional.empty();
        }
        Duration begins = Nanos.toDuration(delay);
        Duration rest = Nanos.toDuration(left);
        String detail = "it would begin in " + begins + ", and " + rest + " are left";
        return Optional.of(Denied.byCaller(DenialReason.DEADLINE, detail));
    }

    private void remember(Answer.Denial denial) {
        core.local().told(question.dependency(), denial.reason(), denial.retryAfter());
    }

    void tell() {
        if (before != null) {
            before.tell();
        }
    }

    /** The service has taken the outcome with the question. */
    private void told() {
        if (before != null) {
            before.toldToFleet();
        }
    }

    /**
     * Nothing was decided. The outcome of an attempt without a permit cannot be told twice, so
     * that it is not told again where the question may have arrived.
     */
    private void tellAfter(NoAnswer.Kind kind) {
        if (before != null && new NoAnswer(kind, "").mayHaveArrived()) {
            before.mayBeTold();
        }
        tell();
    }
}
