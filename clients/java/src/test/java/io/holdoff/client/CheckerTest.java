package io.holdoff.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import io.holdoff.client.service.Scripted;
import io.holdoff.client.v1.CheckRun;
import io.holdoff.client.v1.CheckShared;
import io.holdoff.client.v1.PlanCheckRequest;
import io.holdoff.client.v1.PlanCheckResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A health check that is run again and again. */
@Timeout(60)
final class CheckerTest {
    private static final Duration SECOND = Duration.newBuilder().setSeconds(1).build();

    private static PlanCheckResponse run() {
        CheckRun run =
                CheckRun.newBuilder()
                        .setDelay(Duration.newBuilder().setNanos(5_000_000))
                        .setPermit(ByteString.copyFromUtf8("plan"))
                        .setTimeout(SECOND)
                        .build();
        return PlanCheckResponse.newBuilder().setRun(run).setVerdictValue(1).build();
    }

    private static PlanCheckResponse shared() {
        CheckShared shared =
                CheckShared.newBuilder()
                        .setVerdictValue(2)
                        .setAge(SECOND)
                        .setAskAgain(Duration.newBuilder().setNanos(1_000_000))
                        .build();
        return PlanCheckResponse.newBuilder().setShared(shared).setVerdictValue(2).build();
    }

    @Test
    void eachRunIsPlannedAndItsResultGoesWithTheNextQuestion() throws Exception {
        List<PlanCheckRequest> asked = new ArrayList<>();
        List<Finding> told = new ArrayList<>();
        Scripted service =
                Scripted.start()
                        .plan(
                                request -> {
                                    asked.add(request);
                                    return asked.size() == 2 ? shared() : run();
                                });
        try (service;
                Holdoff holdoff = service.client().build()) {
            Checked checked =
                    holdoff.check("payments", check -> !check.isLocal())
                            .told(told::add)
                            .runs(2)
                            .run();
            assertEquals(new Checked(2, Optional.of(true)), checked);
        }
        assertEquals(4, asked.size());
        assertEquals(false, asked.get(0).hasLastResult());
        assertEquals(1, asked.get(1).getLastResult().getVerdictValue());
        assertEquals(false, asked.get(2).hasLastResult());
        List<String> kinds = told.stream().map(each -> each.getClass().getSimpleName()).toList();
        assertEquals(List.of("Ran", "Shared", "Ran"), kinds);
    }

    @Test
    void anOddPlanIsNoneAndChecksGoOn() throws Exception {
        List<Finding> told = new ArrayList<>();
        try (Scripted service = Scripted.start();
                Holdoff holdoff = service.client().build()) {
            Checked checked =
                    holdoff.check("payments", check -> check.isLocal())
                            .period(java.time.Duration.ofMillis(20))
                            .told(told::add)
                            .runs(2)
                            .run();
            assertEquals(new Checked(2, Optional.of(true)), checked);
        }
        assertEquals(1, told.stream().filter(Finding.Away.class::isInstance).count());
    }

    @Test
    void aCheckThatTakesTooLongIsInterruptedAndUnhealthy() throws Exception {
        AtomicInteger runs = new AtomicInteger();
        List<Finding.Ran> told = new ArrayList<>();
        Checked checked =
                Holdoff.testing()
                        .check(
                                "payments",
                                check -> {
                                    runs.incrementAndGet();
                                    TimeUnit.SECONDS.sleep(30);
                                    return true;
                                })
                        .timeout(java.time.Duration.ofMillis(10))
                        .told(finding -> told.add((Finding.Ran) finding))
                        .run();
        assertEquals(new Checked(3, Optional.of(false)), checked);
        assertTrue(told.stream().allMatch(Finding.Ran::timedOut));
    }

    @Test
    void aCheckThatThrowsWhateverIsUnhealthyAndChecksGoOn() {
        CompletableFuture<Checked> checking =
                Holdoff.testing()
                        .check(
                                "payments",
                                check -> {
                                    throw new AssertionError("not as it should be");
                                })
                        .start("payments-check");
        assertEquals(new Checked(3, Optional.of(false)), checking.join());
    }

    @Test
    void whatEndsACheckerEndsItsFuture() {
        OutOfMemoryError fatal = new OutOfMemoryError("of a test");
        AssertionError fault = new AssertionError("of the listener");
        CompletableFuture<Checked> ill =
                Holdoff.testing()
                        .check(
                                "payments",
                                check -> {
                                    throw fatal;
                                })
                        .start("ill");
        assertSame(fatal, assertThrows(CompletionException.class, ill::join).getCause());
        CompletableFuture<Checked> odd =
                Holdoff.testing()
                        .check("payments", check -> true)
                        .told(
                                finding -> {
                                    throw fault;
                                })
                        .start("odd");
        assertSame(fault, assertThrows(CompletionException.class, odd::join).getCause());
    }
}
