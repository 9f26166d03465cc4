package io.holdoff.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdoff.client.rules.Nanos;
import io.holdoff.client.rules.Policy;
import io.holdoff.client.service.Scripted;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A task that is restarted. */
@Timeout(60)
final class SupervisorTest {
    @Test
    void aTaskIsRestartedUntilItReturnsAndEachStartIsAskedForAsARetry() throws Exception {
        try (Scripted service = Scripted.start();
                Holdoff holdoff = service.client().build()) {
            String value = holdoff.supervise("orders", SupervisorTest::fallTwice).run();
            assertEquals("start 3", value);
            List<Integer> attempts = new ArrayList<>();
            service.asked().forEach(asked -> attempts.add(asked.getAttempt()));
            assertEquals(List.of(1, 2, 3), attempts);
        }
    }

    private static String fallTwice(Attempt attempt) throws IOException {
        if (attempt.number() < 3) {
            throw new IOException("fell");
        }
        return "start " + attempt.number();
    }

    @Test
    void aFinalFailureStopsItAndIsToldToTheService() throws Exception {
        try (Scripted service = Scripted.start();
                Holdoff holdoff = service.client().build()) {
            Supervisor<String, IOException> supervisor =
                    holdoff.<String, IOException>supervise(
                                    "orders",
                                    attempt -> {
                                        throw new IOException("misconfigured");
                                    })
                            .stopIf(failure -> failure.getMessage().equals("misconfigured"));
            assertThrows(IOException.class, supervisor::run);
            assertTrue(holdoff.flush(Duration.ofSeconds(10)));
            assertEquals(1, service.reported().size());
        }
    }

    @Test
    void aStartThatRunsLongEnoughIsReportedAsASuccessWhileItRuns() throws Exception {
        try (Scripted service = Scripted.start();
                Holdoff holdoff = service.client().build()) {
            CountDownLatch isProven = new CountDownLatch(1);
            CompletableFuture<String> running =
                    holdoff.<String, InterruptedException>supervise(
                                    "orders",
                                    attempt -> {
                                        isProven.await();
                                        return "done";
                                    })
                            .healthyAfter(Duration.ofMillis(20))
                            .start("orders");
            while (service.reported().isEmpty()) {
                Thread.onSpinWait();
            }
            var outcome = service.reported().get(0).getResult().getOutcome();
            assertEquals("OUTCOME_KIND_SUCCESS", outcome.getKind().name());
            assertFalse(running.isDone());
            isProven.countDown();
            assertEquals("done", running.join());
        }
    }

    @Test
    void aCancelledSupervisorInterruptsItsTask() throws Exception {
        CountDownLatch isRunning = new CountDownLatch(1);
        CountDownLatch wasTold = new CountDownLatch(1);
        CompletableFuture<String> running =
                Holdoff.testing()
                        .<String, InterruptedException>supervise(
                                "orders",
                                attempt -> {
                                    isRunning.countDown();
                                    try {
                                        new CountDownLatch(1).await();
                                        return "never";
                                    } finally {
                                        wasTold.countDown();
                                    }
                                })
                        .start("orders");
        isRunning.await();
        running.cancel(true);
        wasTold.await();
    }

    @Test
    void aClientForTestsGivesUpAfterThreeStarts() {
        AtomicInteger starts = new AtomicInteger();
        Supervisor<String, IOException> supervisor =
                Holdoff.testing()
                        .supervise(
                                "orders",
                                attempt -> {
                                    starts.incrementAndGet();
                                    throw new IOException("fell");
                                });
        IOException last = assertThrows(IOException.class, supervisor::run);
        assertEquals(3, starts.get());
        assertEquals(
                DenialReason.ATTEMPTS_EXHAUSTED, Holdoff.whyStopped(last).orElseThrow().reason());
    }

    @Test
    void theOwnDelayIsUniformBelowADoublingCeilingThatThePolicyCaps() {
        List<Long> ceilings = new ArrayList<>();
        for (int failures = 1; failures <= 9; failures++) {
            ceilings.add(Chain.fullJitter(Policy.OWN, failures, 1) / Nanos.MILLISECOND);
        }
        assertEquals(
                List.of(100L, 200L, 400L, 800L, 1600L, 3200L, 6400L, 10_000L, 10_000L), ceilings);
        assertEquals(0, Chain.fullJitter(Policy.OWN, 5, 0));
        Policy eager = Policy.OWN.with(
                        changed -> {
                            changed.initialDelay = 0;
                            changed.maxDelay = 0;
                        });
        assertEquals(50 * Nanos.MILLISECOND, Chain.fullJitter(eager, 3, 0.5));
    }
}
