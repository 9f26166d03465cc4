package io.holdoff.client;

import io.holdoff.client.link.Entropy;
import io.holdoff.client.rules.Backoff;
import io.holdoff.client.rules.Nanos;
import io.holdoff.client.rules.Policy;
import java.util.concurrent.TimeUnit;

/**
 * When the next start of a supervised task may be made.
 *
 * <p>A chain of attempts is what the service counts; it ends where the service allows no further
 * one, and where a start was reported as a success before it fell. The supervisor counts on: while
 * its own count is higher than that of the chain, its own delay is a floor under the granted one.
 */
final class Chain {
    private static final long WAIT_MAX = 600 * Nanos.SECOND;
    private static final long WAIT_MIN = 10 * Nanos.MILLISECOND;

    /** A task that falls at once is not restarted at once, whatever the policy of calls says. */
    private static final long FIRST_CEILING = 100 * Nanos.MILLISECOND;

    private final Core core;
    private final Question question;
    private Asking asking;

    /** Starts that failed since the last healthy run. */
    private int failures;

    Chain(Core core, Question question) {
        this.core = core;
        this.question = question;
        asking = Asking.first(core, question);
    }

    /** Of the next start. A healthy run is the first one of those that follow it. */
    int number() {
        return failures == Integer.MAX_VALUE ? failures : failures + 1;
    }

    /** A start ended in failure. One whose permit is used was told as a success before. */
    void fell(Permit permit, boolean wasHealthy) {
        failures = wasHealthy ? 1 : number();
        Asking next = permit.next(Outcome.failure());
        if (next == null) {
            Made made = new Made.OnPushed(core.last(question.dependency()));
            next = Asking.first(core, question).next(made, Outcome.failure());
        }
        asking = next;
    }

    /** There is no next start: how the last one ended is told all the same. */
    void tell() {
        asking.tell();
    }

    /** A permit whose delay is over. Only a client for tests gives up. */
    Decision permission() throws InterruptedException {
        try {
            return waitFor();
        } catch (InterruptedException told) {
            tell();
            throw told;
        }
    }

    private Decision waitFor() throws InterruptedException {
        boolean waits = !core.isTesting();
        boolean isOwed = waits && asking.attempt <= failures;
        while (true) {
            Decision said = asking.ask();
            boolean wasGranted = said instanceof Permit;
            if (said instanceof Permit permit) {
                said = held(permit, isOwed);
            }
            if (!(said instanceof Decision.No no) || !waits) {
                return said;
            }
            Denied denied = no.denied();
            Long after = denied.retryAfter().map(Nanos::of).orElse(null);
            isOwed = isOwed && after != null;
            long wait =
                    after == null
                            ? ownDelay()
                            : Nanos.max(WAIT_MIN, Nanos.min(after, WAIT_MAX));
            TimeUnit.NANOSECONDS.sleep(wait);
            // A grant that was given back would be granted again, void.
            if (wasGranted || !mayBeGrantedLater(denied)) {
                tell();
                asking = Asking.first(core, question);
            }
        }
    }

    /** Waits for the own delay too, where that is owed. */
    private Decision held(Permit permit, boolean isOwed) throws InterruptedException {
        if (isOwed) {
            try {
                TimeUnit.NANOSECONDS.sleep(ownDelay());
            } catch (InterruptedException told) {
                permit.close();
                throw told;
            }
        }
        return permit.hold();
    }

    private long ownDelay() {
        return fullJitter(core.local().policy(question.dependency()), failures, Entropy.unit());
    }

    /** Uniform below the policy's ceiling for this restart. */
    static long fullJitter(Policy policy, int failures, double unit) {
        long initial = Nanos.max(policy.initialDelay(), FIRST_CEILING);
        long max = Nanos.max(policy.maxDelay(), FIRST_CEILING);
        Policy own =
                policy.with(
                        changed -> {
                            changed.initialDelay = initial;
                            changed.maxDelay = max;
                        });
        long ceiling = Backoff.ceiling(own, Math.max(1, failures));
        return Nanos.min(Nanos.part(ceiling, unit), WAIT_MAX);
    }

    /** Whether the very same question may have another answer after a while. */
    private static boolean mayBeGrantedLater(Denied denied) {
        return denied.retryAfter().isPresent()
                || denied.reason() == DenialReason.BUDGET_EXHAUSTED
                || denied.reason() == DenialReason.NO_DECISION;
    }
}
