package io.holdoff.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdoff.client.service.Scripted;
import io.holdoff.client.v1.AcquireResponse;
import io.holdoff.client.v1.BreakerState;
import io.holdoff.client.v1.Denial;
import io.holdoff.client.v1.FirstAttempts;
import io.holdoff.client.v1.ReportEntry;
import io.holdoff.client.v1.Update;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.ToLongFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A pushed GO outlives the service that has pushed it. */
@Timeout(60)
final class AloneTest {
    private final Scripted service;

    AloneTest() throws IOException {
        Update go =
                Update.newBuilder()
                        .setDependency("payments")
                        .setState(BreakerState.BREAKER_STATE_CLOSED)
                        .setEpoch(7)
                        .setFirstAttempts(FirstAttempts.FIRST_ATTEMPTS_GO)
                        .setValidFor(com.google.protobuf.Duration.newBuilder().setSeconds(300))
                        .build();
        service = Scripted.start().push(go);
    }

    /** Retries so soon that nobody waits for them. */
    private HoldoffBuilder builder() {
        Duration soon = Duration.ofMillis(1);
        LocalPolicy quick = LocalPolicy.standard().delays(soon, 1, soon);
        return service.client().localPolicy(quick).follow("payments");
    }

    /** A client that was told that first attempts go. */
    private static Holdoff letGo(HoldoffBuilder builder) throws InterruptedException {
        Holdoff holdoff = builder.build();
        assertTrue(holdoff.connect(Duration.ofSeconds(10)));
        assertFalse(isAlone(holdoff));
        assertEquals(0, holdoff.counters().asked());
        return holdoff;
    }

    /** Whether one more call, which ends well, is decided alone. */
    private static boolean isAlone(Holdoff holdoff) {
        return holdoff.call("payments", Attempt::isLocal);
    }

    private void lose(Holdoff holdoff) throws InterruptedException {
        service.close();
        assertTrue(comes(() -> isAlone(holdoff)), "it goes on as if the service counted");
    }

    private static boolean comes(BooleanSupplier is) throws InterruptedException {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (!is.getAsBoolean() && System.nanoTime() < until) {
            TimeUnit.MILLISECONDS.sleep(10);
        }
        return is.getAsBoolean();
    }

    private static String failsOnce(Attempt attempt) throws IOException {
        if (attempt.number() == 1) {
            throw new IOException("boom");
        }
        return "done";
    }

    private static String fails(Attempt attempt) throws IOException {
        throw new IOException("boom");
    }

    private static Denied whyStopped(Guard guard) {
        IOException thrown = assertThrows(IOException.class, () -> guard.call(AloneTest::fails));
        return Holdoff.whyStopped(thrown).orElseThrow();
    }

    @Test
    void whileAGoOutlivesTheServiceWhatEndsWellCountsToo() throws Exception {
        try (Holdoff holdoff = letGo(builder())) {
            lose(holdoff);
            Counters before = holdoff.counters();
            Guard guard = holdoff.guard("payments").idempotent();
            for (int call = 1; call <= 160; call++) {
                Operation<String, IOException> once = AloneTest::failsOnce;
                assertEquals("done", guard.call(call % 8 == 0 ? once : attempt -> "done"));
            }
            Counters after = holdoff.counters();
            assertEquals(20, after.noDecision() - before.noDecision());
            assertEquals(180, after.localGrants() - before.localGrants());
        }
    }

    @Test
    void aCallThatBlocksNoThreadIsDecidedAloneToo() throws Exception {
        try (Holdoff holdoff = letGo(builder())) {
            lose(holdoff);
            CompletableFuture<Boolean> call =
                    holdoff.callAsync(
                            "payments",
                            attempt -> CompletableFuture.completedFuture(attempt.isLocal()));
            assertTrue(call.get(10, TimeUnit.SECONDS));
        }
    }

    @Test
    void aDependencyThatFailsIsFoundOutAloneAlthoughAGoStands() throws Exception {
        try (Holdoff holdoff = letGo(builder())) {
            lose(holdoff);
            for (int call = 0; call < 5; call++) {
                Denied unsafe = whyStopped(holdoff.guard("payments"));
                assertEquals(DenialReason.RETRY_UNSAFE, unsafe.reason());
            }
            var denied = assertThrows(DeniedException.class, () -> isAlone(holdoff)).denied();
            assertEquals(DenialReason.BREAKER_OPEN, denied.reason());
            assertEquals(DeniedBy.LOCAL, denied.by());
        }
    }

    @Test
    void whereThisProcessDoesNotDecideAGoOutlivesTheService() throws Exception {
        try (Holdoff own = letGo(builder());
                Holdoff allows = letGo(builder().onNoDecision(OnNoDecision.ALLOW));
                Holdoff denies = letGo(builder().onNoDecision(OnNoDecision.DENY))) {
            lose(own);
            for (Holdoff holdoff : List.of(allows, denies)) {
                // A question is lost where the connection is.
                assertTrue(comes(() -> hasLost(holdoff)));
                for (int call = 0; call < 20; call++) {
                    assertFalse(isAlone(holdoff));
                    whyStopped(holdoff.guard("payments"));
                }
            }
        }
    }

    private static boolean hasLost(Holdoff holdoff) {
        long before = holdoff.counters().noDecision();
        whyStopped(holdoff.guard("payments").idempotent().maxAttempts(2));
        return holdoff.counters().noDecision() > before;
    }

    @Test
    void whatIsUnderWayWhenTheServiceIsLostCountsHereAndIsToldOnce() throws Exception {
        try (Holdoff holdoff = letGo(builder())) {
            assertTrue(holdoff.flush(Duration.ofSeconds(10)));
            List<Permit> permits = new ArrayList<>();
            for (int attempt = 0; attempt < 80; attempt++) {
                permits.add(holdoff.acquire(Question.of("payments").idempotent()));
            }
            assertTrue(permits.stream().noneMatch(Permit::isLocal));
            lose(holdoff);
            for (int attempt = 1; attempt <= 80; attempt++) {
                Permit permit = permits.get(attempt - 1);
                if (attempt % 8 == 0) {
                    permit = permit.retry(Outcome.failure());
                }
                permit.report(Outcome.success());
            }
            try (Scripted again = Scripted.startAgain(service.port())) {
                assertTrue(holdoff.flush(Duration.ofSeconds(10)));
                // The first one was told before, and some may have been made before the loss was
                // known.
                long succeeded = holdoff.counters().pushedGrants() - 1 - 10;
                assertEquals(succeeded, told(again, each -> each.getTally().getSuccesses()));
                assertEquals(10, told(again, each -> each.getTally().getFailures()));
                assertEquals(0, told(again, each -> each.getTally().getFirstAttempts()));
            }
        }
    }

    private static long told(Scripted service, ToLongFunction<ReportEntry> of) {
        return service.reported().stream().mapToLong(of).sum();
    }

    @Test
    void whatTheServiceDeniedARetryBindsNoFirstAttemptThatItLetGo() throws Exception {
        Denial.Builder held =
                Denial.newBuilder()
                        .setReasonValue(io.holdoff.client.v1.DenialReason.DENIAL_REASON_HELD_VALUE)
                        .setRetryAfter(com.google.protobuf.Duration.newBuilder().setSeconds(60));
        AcquireResponse answer =
                AcquireResponse.newBuilder().setDenial(held).setStateValue(1).setEpoch(7).build();
        service.answer(request -> answer);
        try (Holdoff holdoff = letGo(builder())) {
            Guard guard = holdoff.guard("payments").idempotent();
            Denied byFleet = whyStopped(guard);
            assertEquals(DenialReason.HELD, byFleet.reason());
            assertEquals(DeniedBy.FLEET, byFleet.by());
            lose(holdoff);
            assertTrue(isAlone(holdoff));
            Denied here = whyStopped(guard);
            assertEquals(DenialReason.HELD, here.reason());
            assertEquals(DeniedBy.LOCAL, here.by());
        }
    }

    @Test
    void afterThreeSilentAnswersAGoIsDecidedAlone() throws Exception {
        service.answer(request -> null);
        try (Holdoff holdoff = letGo(builder().timeout(Duration.ofMillis(100)))) {
            for (int silent = 0; silent < 3; silent++) {
                assertFalse(isAlone(holdoff), "after " + silent + " silent answers");
                Guard guard = holdoff.guard("payments").idempotent();
                assertEquals("done", guard.call(AloneTest::failsOnce));
            }
            assertTrue(isAlone(holdoff));
        } finally {
            service.close();
        }
    }

    @Test
    void theServiceIsLookedForWhileAGoOutlivesItAndNothingFails() throws Exception {
        try (Holdoff holdoff = letGo(builder())) {
            assertTrue(holdoff.flush(Duration.ofSeconds(10)));
            lose(holdoff);
            long before = holdoff.counters().connections();
            try (Scripted again = Scripted.startAgain(service.port())) {
                isAlone(holdoff);
                assertTrue(comes(() -> holdoff.counters().connections() > before));
                assertTrue(comes(() -> !isAlone(holdoff)));
                assertTrue(again.asked().isEmpty());
            }
        }
    }
}
