package io.holdoff.client;

import io.holdoff.client.link.Entropy;
import io.holdoff.client.link.NoAnswer;
import io.holdoff.client.link.PlanAnswer;
import io.holdoff.client.rules.CheckerName;
import io.holdoff.client.rules.Nanos;
import io.holdoff.client.v1.Caller;
import io.holdoff.client.v1.CheckResult;
import io.holdoff.client.v1.CheckVerdict;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.function.Consumer;

/**
 * What a checker keeps from one run to the next: the result that is still to be handed over, the
 * schedule without the service, and what has been told already.
 *
 * <p>Without the service, run k starts at {@code anchor + k * period}. The anchor is the time that
 * the service planned last, so that a fleet that loses it stays as spread as it was; before any
 * plan it is a hash of dependency and checker into the period. A run that is late or long takes
 * the next time.
 */
final class CheckCourse {
    private static final System.Logger LOG = System.getLogger("io.holdoff.client");

    /** An answer is waited for no longer than this, or a tenth of the period. */
    private static final long PLAN_TIMEOUT_MAX = Nanos.SECOND;

    /** Without an answer, the service is looked for again after so long at most. */
    private static final long LOOK_AGAIN = 60 * Nanos.SECOND;

    private static final int TEXT_LENGTH = 200;

    private enum Without {
        NOT_PLANNED,
        AWAY
    }

    private final Core core;
    private final String dependency;
    private final long ownPeriod;
    private final long ownTimeout;
    private final Consumer<? super Finding> told;

    private long anchor;
    private long period;
    private long timeout;

    /** The plan that was asked for last; null: there is none. */
    private PlanAnswer.Plan plan;

    /** There is a service, and it did not answer. */
    private boolean isMissed;

    private CheckResult result;
    private Finding.Ran ended;
    private Without without;
    private long notBefore = System.nanoTime();

    CheckCourse(
            Core core,
            String dependency,
            Duration period,
            Duration timeout,
            Consumer<? super Finding> told) {
        this.core = core;
        this.dependency = dependency;
        this.told = told;
        ownPeriod = Nanos.of(period);
        ownTimeout = Nanos.of(timeout);
        this.period = ownPeriod;
        this.timeout = ownTimeout;
        anchor = System.nanoTime() + CheckerName.partOf(name(), ownPeriod);
    }

    private long name() {
        if (core.link() == null) {
            // It has no name that another one has not.
            return Entropy.number();
        }
        Caller caller = core.link().hello().getCaller();
        return CheckerName.of(dependency, caller.getService(), caller.getInstance());
    }

    /** Asks when to check next, and tells how the last run ended. */
    void plan() throws InterruptedException {
        PlanAnswer answer = core.link() == null ? null : ask();
        plan = answer == null ? null : answer.plan();
        if (ended != null) {
            Optional<Verdict> fleet = Optional.ofNullable(plan).map(said -> verdict(said.verdict()));
            told.accept(
                    new Finding.Ran(
                            ended.isHealthy(),
                            ended.timedOut(),
                            ended.took(),
                            ended.isLocal(),
                            fleet));
            ended = null;
        }
        isMissed = answer != null && plan == null;
        if (plan != null) {
            follow();
        } else if (isMissed) {
            goWithout(answer.why());
        }
    }

    /** A result is handed over once: asked again without it, the service repeats its plan. */
    private PlanAnswer ask() throws InterruptedException {
        long patience = Math.max(Math.min(period / 10, PLAN_TIMEOUT_MAX), core.timeout());
        CheckResult last = result;
        result = null;
        try {
            PlanAnswer answer = core.link().planCheck(dependency, last, patience).get();
            boolean wasSent = answer.why() == null || answer.why().kind() != NoAnswer.Kind.AWAY;
            result = wasSent ? null : last;
            return answer;
        } catch (ExecutionException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private void follow() {
        without = null;
        period = plan.period() == 0 ? period : plan.period();
        anchor = System.nanoTime() + plan.delay();
        if (plan.permit() != null) {
            timeout = plan.timeout();
        } else {
            Optional<Duration> age = Optional.ofNullable(plan.age()).map(Nanos::toDuration);
            Duration askAgain = Nanos.toDuration(plan.delay());
            told.accept(new Finding.Shared(verdict(plan.shared()), age, askAgain));
        }
    }

    private void goWithout(NoAnswer why) {
        boolean isRefused = why.kind() == NoAnswer.Kind.REFUSED;
        if (isRefused) {
            // On the same grid, with the checker's own period.
            period = ownPeriod;
            timeout = ownTimeout;
        }
        Without now = isRefused ? Without.NOT_PLANNED : Without.AWAY;
        if (without == now) {
            return;
        }
        without = now;
        String text = why.detail().substring(0, Math.min(why.detail().length(), TEXT_LENGTH));
        LOG.log(Level.WARNING, "health checks of {0} go on by themselves: {1}", dependency, text);
        told.accept(isRefused ? new Finding.NotPlanned(text) : new Finding.Away(text));
    }

    /** False: ask again. */
    boolean waitForRun() throws InterruptedException {
        long now = System.nanoTime();
        long at = plan == null ? next(now) : now + plan.delay();
        boolean isTooFar = isMissed && at - now > LOOK_AGAIN;
        if (!core.isTesting()) {
            long until = isTooFar ? now + LOOK_AGAIN : at;
            Checker.pause(until - notBefore < 0 ? notBefore : until);
            notBefore = System.nanoTime() + Checker.APART_MIN.toNanos();
        }
        return !isTooFar && (plan == null || plan.permit() != null);
    }

    /** The first time of the grid after now. */
    private long next(long now) {
        long past = now - anchor;
        return past < 0 ? anchor : anchor + (past / period + 1) * period;
    }

    boolean isLocal() {
        return plan == null;
    }

    long timeoutOfRun() {
        return plan == null ? timeout : plan.timeout();
    }

    void ran(Finding.Ran run) {
        ended = run;
        if (plan != null) {
            CheckVerdict found =
                    run.isHealthy()
                            ? CheckVerdict.CHECK_VERDICT_HEALTHY
                            : CheckVerdict.CHECK_VERDICT_UNHEALTHY;
            result = CheckResult.newBuilder().setPermit(plan.permit()).setVerdict(found).build();
        }
    }

    private static Verdict verdict(int said) {
        return Verdict.values()[said - 1];
    }
}
