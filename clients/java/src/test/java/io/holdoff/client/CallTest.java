package io.holdoff.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdoff.client.service.Scripted;
import io.holdoff.client.v1.ReportEntry;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiConsumer;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

/** What a caller sees of a call. */
@Timeout(60)
final class CallTest {
    private final Holdoff testing = Holdoff.testing();

    @Test
    void theLastRealErrorItselfIsThrownWithTheReasonInIt() {
        AtomicInteger runs = new AtomicInteger();
        IOException thrown =
                assertThrows(
                        IOException.class,
                        () ->
                                testing.guard("payments")
                                        .idempotent()
                                        .call(
                                                attempt -> {
                                                    runs.incrementAndGet();
                                                    throw new IOException("run " + attempt.number());
                                                }));
        assertEquals("run 3", thrown.getMessage());
        assertEquals(3, runs.get());
        Denied why = Holdoff.whyStopped(thrown).orElseThrow();
        assertEquals(DenialReason.ATTEMPTS_EXHAUSTED, why.reason());
        assertEquals(DeniedBy.LOCAL, why.by());
    }

    @Test
    void anExceptionThatIsThrownAgainAndAgainHasOneReason() {
        RuntimeException same = new RuntimeException("the same");
        for (int call = 0; call < 100; call++) {
            assertSame(same, assertThrows(RuntimeException.class, () -> callThrowing(same)));
        }
        assertEquals(1, same.getSuppressed().length);
        DenialReason reason = Holdoff.whyStopped(same).orElseThrow().reason();
        assertEquals(DenialReason.RETRY_UNSAFE, reason);
    }

    private void callThrowing(RuntimeException error) {
        testing.call(
                "payments",
                attempt -> {
                    throw error;
                });
    }

    @Test
    void whatCannotBeRetriedIsNotRetriedInTestsEither() {
        AtomicInteger runs = new AtomicInteger();
        assertThrows(
                IllegalStateException.class,
                () ->
                        testing.call(
                                "payments",
                                attempt -> {
                                    runs.incrementAndGet();
                                    throw new IllegalStateException();
                                }));
        assertEquals(1, runs.get());
    }

    @Test
    void aClassifierThatFailsIsToldOnce() {
        List<LogRecord> lines = new CopyOnWriteArrayList<>();
        Handler handler =
                new Handler() {
                    @Override
                    public void publish(LogRecord line) {
                        lines.add(line);
                    }

                    @Override
                    public void flush() {}

                    @Override
                    public void close() {}
                };
        AssertionError fault = new AssertionError("broken");
        Guard guard =
                testing.guard("payments")
                        .classify(
                                (value, error) -> {
                                    throw fault;
                                });
        Logger logger = Logger.getLogger("io.holdoff.client");
        logger.addHandler(handler);
        try {
            for (int call = 0; call < 3; call++) {
                assertEquals("done", guard.call(attempt -> "done"));
            }
        } finally {
            logger.removeHandler(handler);
        }
        List<LogRecord> told = lines.stream().filter(line -> line.getThrown() == fault).toList();
        assertEquals(1, told.size());
        assertEquals(Level.WARNING, told.get(0).getLevel());
    }

    @Test
    void anErrorOfTheMachineIsNotRetried() {
        AtomicInteger runs = new AtomicInteger();
        assertThrows(
                StackOverflowError.class,
                () ->
                        testing.guard("payments")
                                .idempotent()
                                .call(
                                        attempt -> {
                                            runs.incrementAndGet();
                                            throw new StackOverflowError();
                                        }));
        assertEquals(1, runs.get());
    }

    @Test
    void aValueThatCountsAsFailureIsRetriedAndReturnedAsItIs() {
        AtomicInteger runs = new AtomicInteger();
        int value =
                testing.guard("payments")
                        .idempotent()
                        .classify((result, error) -> Outcome.of(OutcomeKind.FAILURE))
                        .call(attempt -> runs.incrementAndGet());
        assertEquals(3, value);
    }

    @Test
    void aFallbackGetsTheErrorAndTakesItsPlace() {
        AtomicReference<Exception> seen = new AtomicReference<>();
        String value =
                testing.guard("payments")
                        .callOr(
                                attempt -> {
                                    throw new IllegalStateException("boom");
                                },
                                why -> {
                                    seen.set(why);
                                    return "cached";
                                });
        assertEquals("cached", value);
        assertEquals("boom", seen.get().getMessage());
    }

    @Test
    void anAttemptThatTakesTooLongIsInterruptedAndTheCallerIsNot() {
        Guard guard = testing.guard("slow").maxAttempts(1).attemptTimeout(Duration.ofMillis(30));
        TimedOutException late =
                assertThrows(
                        TimedOutException.class,
                        () ->
                                guard.call(
                                        attempt -> {
                                            TimeUnit.SECONDS.sleep(30);
                                            return "never";
                                        }));
        assertEquals(1, late.attempts());
        assertEquals(late.denied(), Holdoff.whyStopped(late).orElseThrow());
        assertFalse(Thread.currentThread().isInterrupted());
    }

    @Test
    void anInterruptedCallerGivesUpAndStaysInterrupted() throws InterruptedException {
        AtomicReference<Throwable> ended = new AtomicReference<>();
        AtomicReference<Boolean> stays = new AtomicReference<>();
        CountDownLatch isRunning = new CountDownLatch(1);
        try (Holdoff alone = Holdoff.builder().endpoints("http://127.0.0.1:1").build()) {
            Thread caller =
                    new Thread(
                            () -> {
                                try {
                                    waitLong(alone, isRunning);
                                } catch (Exception error) {
                                    ended.set(error);
                                }
                                stays.set(Thread.currentThread().isInterrupted());
                            });
            caller.start();
            isRunning.await();
            caller.interrupt();
            caller.join();
        }
        Denied why = Holdoff.whyStopped(ended.get()).orElseThrow();
        assertEquals(DenialReason.CANCELLED, why.reason());
        assertInstanceOf(IOException.class, ended.get());
        assertTrue(stays.get());
    }

    private static void waitLong(Holdoff alone, CountDownLatch isRunning) throws IOException {
        alone.guard("payments")
                .idempotent()
                .classify((v, e) -> Outcome.failure().pushback(Duration.ofSeconds(30)))
                .call(
                        attempt -> {
                            isRunning.countDown();
                            throw new IOException("busy");
                        });
    }

    @Test
    void aCallWithoutAThreadEndsWithTheRealErrorAndTheReason() {
        CompletableFuture<String> call =
                testing.guard("payments")
                        .idempotent()
                        .callAsync(
                                attempt ->
                                        CompletableFuture.failedFuture(
                                                new IOException("run " + attempt.number())));
        CompletionException ended = assertThrows(CompletionException.class, call::join);
        assertEquals("run 3", ended.getCause().getMessage());
        DenialReason reason = Holdoff.whyStopped(ended).orElseThrow().reason();
        assertEquals(DenialReason.ATTEMPTS_EXHAUSTED, reason);
    }

    @Test
    void aCancelledFutureCancelsTheAttemptAndTheServiceHearsOfIt() throws Exception {
        try (Scripted service = Scripted.start();
                Holdoff holdoff = service.client().build()) {
            CompletableFuture<String> running = new CompletableFuture<>();
            CountDownLatch isRunning = new CountDownLatch(1);
            CompletableFuture<String> call =
                    holdoff.callAsync(
                            "payments",
                            attempt -> {
                                isRunning.countDown();
                                return running;
                            });
            isRunning.await();
            call.cancel(true);
            assertThrows(CancellationException.class, call::join);
            assertThrows(CancellationException.class, running::join);
            assertTrue(holdoff.flush(Duration.ofSeconds(10)));
            assertEquals(List.of("OUTCOME_KIND_CANCELLED"), kinds(service));
        }
    }

    @Test
    void whoLearnsThatACallIsCancelledMayFlushWhatBecameOfIt() throws Exception {
        try (Scripted service = Scripted.start();
                Holdoff holdoff = service.client().build()) {
            CountDownLatch isRunning = new CountDownLatch(1);
            CompletableFuture<String> running = new HeardOf<>(isRunning);
            CompletableFuture<String> call = holdoff.callAsync("payments", attempt -> running);
            isRunning.await();
            CompletableFuture<Boolean> learned =
                    call.handle((value, error) -> running.isCancelled() && flushed(holdoff));
            call.cancel(true);
            assertTrue(learned.join());
            assertEquals(List.of("OUTCOME_KIND_CANCELLED"), kinds(service));
        }
    }

    /** An attempt that tells when the call waits for its end, and not only when it has begun. */
    private static final class HeardOf<T> extends CompletableFuture<T> {
        private final CountDownLatch isHeardOf;

        HeardOf(CountDownLatch isHeardOf) {
            this.isHeardOf = isHeardOf;
        }

        @Override
        public CompletableFuture<T> whenComplete(
                BiConsumer<? super T, ? super Throwable> then) {
            CompletableFuture<T> dependent = super.whenComplete(then);
            isHeardOf.countDown();
            return dependent;
        }
    }

    @Test
    void whoLearnsThatAQuestionIsCancelledMayFlushThePermit() throws Exception {
        try (Scripted service = Scripted.start().answer(request -> Scripted.grantAfter(900));
                Holdoff holdoff = service.client().build();
                Permit permit = holdoff.acquire("payments")) {
            CompletableFuture<Permit> waiting = permit.awaitAsync();
            CompletableFuture<Boolean> learned =
                    waiting.handle((value, error) -> flushed(holdoff));
            waiting.cancel(true);
            assertTrue(learned.join());
            assertEquals(List.of("OUTCOME_KIND_CANCELLED"), kinds(service));
        }
    }

    private static boolean flushed(Holdoff holdoff) {
        try {
            return holdoff.flush(Duration.ofSeconds(10));
        } catch (InterruptedException givenUp) {
            return false;
        }
    }

    @Test
    void aPermitThatIsClosedUnreportedCountsAsCancelledAndOnlyOnce() throws Exception {
        try (Scripted service = Scripted.start();
                Holdoff holdoff = service.client().build()) {
            try (Permit permit = holdoff.acquire("payments").await()) {
                assertEquals(1, permit.attempt());
                assertFalse(permit.isLocal());
            }
            Permit permit = holdoff.acquire(Question.of("payments").idempotent());
            permit.report(Outcome.success());
            permit.close();
            assertThrows(DeniedException.class, () -> permit.retry(Outcome.failure()));
            assertTrue(holdoff.flush(Duration.ofSeconds(10)));
            assertEquals(
                    List.of("OUTCOME_KIND_CANCELLED", "OUTCOME_KIND_SUCCESS"), kinds(service));
        }
    }

    private static List<String> kinds(Scripted service) {
        return service.reported().stream()
                .map(ReportEntry::getResult)
                .map(result -> result.getOutcome().getKind().name())
                .toList();
    }

    @Test
    void aHedgeOfAnUnsafeCallIsRefused() throws Exception {
        try (Scripted service = Scripted.start();
                Holdoff holdoff = service.client().build();
                Permit unsafe = holdoff.acquire("payments");
                Permit safe = holdoff.acquire(Question.of("payments").idempotent());
                Permit copy = safe.hedge()) {
            assertEquals(1, copy.attempt());
            DeniedException refused = assertThrows(DeniedException.class, unsafe::hedge);
            assertEquals(DenialReason.HEDGE_REFUSED, refused.denied().reason());
            assertEquals(3, service.asked().size());
            assertTrue(service.asked().get(2).getHedge());
        }
    }

    @Test
    void aBypassLetsEveryCallThroughWithLocalRetries() throws InterruptedException {
        try (Holdoff bypassed = Holdoff.builder().build(Map.of("HOLDOFF_BYPASS", "1"))) {
            for (int call = 0; call < 100; call++) {
                RuntimeException error = new RuntimeException("boom");
                assertThrows(RuntimeException.class, () -> bypassed.call("payments", a -> fail(error)));
                DenialReason reason = Holdoff.whyStopped(error).orElseThrow().reason();
                assertEquals(DenialReason.RETRY_UNSAFE, reason);
            }
            Permit permit = bypassed.acquire(Question.of("payments").idempotent());
            for (int attempt = 2; attempt <= 3; attempt++) {
                permit = permit.retry(Outcome.timeout()).await();
                assertEquals(attempt, permit.attempt());
            }
            Permit last = permit;
            DeniedException ended =
                    assertThrows(DeniedException.class, () -> last.retry(Outcome.failure()));
            assertEquals(DenialReason.ATTEMPTS_EXHAUSTED, ended.denied().reason());
            assertFalse(bypassed.connect(Duration.ofSeconds(1)));
        }
    }

    private static String fail(RuntimeException error) {
        throw error;
    }

    @Test
    void aNameThatNoDependencyHasIsAnErrorThatNamesItUnlessInABypass() {
        for (String name : List.of("a b", "", "x".repeat(201))) {
            List<Executable> asks =
                    List.of(
                            () -> testing.call(name, attempt -> "ran"),
                            () -> testing.acquire(name),
                            () -> testing.supervise(name, attempt -> "ran"),
                            () -> testing.check(name, check -> true));
            for (Executable ask : asks) {
                var refused = assertThrows(IllegalArgumentException.class, ask);
                assertTrue(refused.getMessage().startsWith("dependency `"), refused.getMessage());
            }
        }
        try (Holdoff bypassed = Holdoff.builder().build(Map.of("HOLDOFF_BYPASS", "1"))) {
            assertEquals("ran", bypassed.call("a b", attempt -> "ran"));
        }
    }

    @Test
    void whatBlocksNoThreadEndsThoughTheMachineOrItsExecutorFails() throws Exception {
        Executor full =
                task -> {
                    throw new RejectedExecutionException("full");
                };
        try (Scripted service = Scripted.start();
                Holdoff holdoff = service.client().executor(full).build()) {
            AssertionError fault = new AssertionError("fatal");
            var failed =
                    assertThrows(
                            ExecutionException.class,
                            () ->
                                    holdoff.<String>callAsync(
                                                    "payments",
                                                    attempt -> {
                                                        throw fault;
                                                    })
                                            .get(10, TimeUnit.SECONDS));
            assertSame(fault, failed.getCause());
            AsyncOperation<String> second =
                    attempt ->
                            attempt.number() < 2
                                    ? CompletableFuture.failedFuture(new IOException("first"))
                                    : CompletableFuture.completedFuture("second");
            assertEquals(
                    "second",
                    holdoff.guard("payments").idempotent().callAsync(second).get(10, TimeUnit.SECONDS));
        }
    }

    @Test
    void theEnvironmentNamesTheEndpointWhereNoOptionDoes() throws Exception {
        try (Scripted service = Scripted.start();
                Holdoff holdoff =
                        Holdoff.builder()
                                .timeout(Duration.ofSeconds(5))
                                .build(Map.of("HOLDOFF_SERVER", "127.0.0.1:" + service.port()))) {
            assertFalse(holdoff.call("payments", Attempt::isLocal));
        }
        HoldoffBuilder builder = Holdoff.builder();
        var refused =
                assertThrows(
                        IllegalArgumentException.class,
                        () -> builder.build(Map.of("HOLDOFF_SERVER", "log")));
        assertTrue(refused.getMessage().startsWith("HOLDOFF_SERVER `log`: "), refused.getMessage());
    }

    @Test
    void settingsThatCanNeverWorkAreRefusedByTheirName() {
        for (String odd : List.of("log", "ftp://host:1", "http://", "http://h:99999")) {
            HoldoffBuilder builder = Holdoff.builder().endpoints(odd);
            var refused = assertThrows(IllegalArgumentException.class, builder::build);
            assertTrue(refused.getMessage().contains(odd), refused.getMessage());
        }
        HoldoffBuilder hasty = Holdoff.builder().timeout(Duration.ZERO);
        assertThrows(IllegalArgumentException.class, hasty::build);
        HoldoffBuilder odd = Holdoff.builder().follow("no spaces");
        assertThrows(IllegalArgumentException.class, odd::build);
        HoldoffBuilder tenant = Holdoff.builder().namespace("a b");
        assertThrows(IllegalArgumentException.class, tenant::build);
        HoldoffBuilder secret = Holdoff.builder().endpoints("http://me:secret@h:1");
        var hidden = assertThrows(IllegalArgumentException.class, secret::build);
        assertEquals(
                "endpoint `…@h:1`: it must be http://host:port, https://host:port or host:port",
                hidden.getMessage());
        var free = assertThrows(IllegalArgumentException.class, () -> Question.of("a").cost(-1));
        assertEquals("cost -1: 0 to 1000000", free.getMessage());
        HoldoffBuilder lengthy = Holdoff.builder().service("x".repeat(201));
        assertThrows(IllegalArgumentException.class, lengthy::build);
    }

    @Test
    void clientsThatAreOpenedAndClosedLeaveNoThreadBehind() throws Exception {
        try (Scripted service = Scripted.start()) {
            long before = ownThreads();
            for (int cycle = 0; cycle < 30; cycle++) {
                try (Holdoff holdoff = service.client().build()) {
                    assertFalse(holdoff.call("payments", Attempt::isLocal));
                }
            }
            long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
            while (ownThreads() > before && System.nanoTime() < until) {
                TimeUnit.MILLISECONDS.sleep(10);
            }
            assertTrue(ownThreads() <= before, () -> ownThreads() + " threads, " + before + " before");
        }
    }

    private static long ownThreads() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().startsWith("holdoff-"))
                .count();
    }

    @Test
    void theClientsOwnThreadRunsNobodyElsesCode() throws Exception {
        List<String> threads = new CopyOnWriteArrayList<>();
        try (Scripted service = Scripted.start().answer(request -> Scripted.grantAfter(5));
                Holdoff holdoff = service.client().build()) {
            Guard guard = holdoff.guard("payments").attemptTimeout(Duration.ofMillis(10));
            CompletableFuture<Integer> call =
                    guard.callAsync(
                            attempt -> {
                                threads.add(Thread.currentThread().getName());
                                return new CompletableFuture<>();
                            });
            call.handle((value, error) -> threads.add(Thread.currentThread().getName())).join();
            holdoff.acquireAsync(Question.of("payments"))
                    .thenCompose(Permit::awaitAsync)
                    .thenAccept(permit -> threads.add(Thread.currentThread().getName()))
                    .join();
        }
        assertEquals(3, threads.size());
        assertTrue(threads.stream().noneMatch(name -> name.startsWith("holdoff-")), threads::toString);
    }

    @Test
    void aClosedClientDecidesAloneAndKeepsNobodyWaiting() throws Exception {
        Holdoff holdoff = Holdoff.builder().endpoints("http://127.0.0.1:1").build();
        holdoff.close();
        assertEquals("done", holdoff.call("payments", attempt -> "done"));
        CompletableFuture<String> call =
                holdoff.callAsync("payments", a -> CompletableFuture.completedFuture("later"));
        assertEquals("later", call.get(10, TimeUnit.SECONDS));
    }

    @Test
    void aClassifierThatFailsOrSaysNothingLosesNeitherTheCallNorItsPermit() throws Exception {
        Classifier broken =
                (value, error) -> {
                    throw new IllegalArgumentException("broken");
                };
        Classifier incomplete =
                (value, error) -> {
                    throw new NoClassDefFoundError("incomplete");
                };
        RuntimeException real = new RuntimeException("real");
        for (Classifier classifier : List.of(broken, incomplete, (value, error) -> null)) {
            try (Scripted service = Scripted.start();
                    Holdoff holdoff = service.client().build()) {
                Guard guard = holdoff.guard("payments").idempotent().classify(classifier);
                assertEquals("done", guard.call(attempt -> "done"));
                assertSame(
                        real,
                        assertThrows(RuntimeException.class, () -> guard.call(a -> fail(real))));
                assertEquals(
                        "done",
                        guard.callAsync(a -> CompletableFuture.completedFuture("done")).join());
                CompletableFuture<String> failed =
                        guard.callAsync(a -> CompletableFuture.failedFuture(real));
                assertSame(real, assertThrows(CompletionException.class, failed::join).getCause());
                assertTrue(holdoff.flush(Duration.ofSeconds(10)));
                String ignored = "OUTCOME_KIND_IGNORED";
                assertEquals(List.of(ignored, ignored, ignored, ignored), kinds(service));
            }
        }
    }

    @Test
    void anErrorOfTheMachineInAClassifierGivesThePermitBackAndEndsTheCall() throws Exception {
        InternalError fault = new InternalError("fatal");
        try (Scripted service = Scripted.start();
                Holdoff holdoff = service.client().build()) {
            Guard guard =
                    holdoff.guard("payments")
                            .classify(
                                    (value, error) -> {
                                        throw fault;
                                    });
            assertSame(
                    fault, assertThrows(InternalError.class, () -> guard.call(a -> "done")));
            CompletableFuture<String> call =
                    guard.callAsync(a -> CompletableFuture.completedFuture("done"));
            var ended =
                    assertThrows(ExecutionException.class, () -> call.get(10, TimeUnit.SECONDS));
            assertSame(fault, ended.getCause());
            assertTrue(holdoff.flush(Duration.ofSeconds(10)));
            String cancelled = "OUTCOME_KIND_CANCELLED";
            assertEquals(List.of(cancelled, cancelled), kinds(service));
        }
    }

    @Test
    void guardedCallsInsideGuardedCallsDoNotMultiply() {
        AtomicInteger runs = new AtomicInteger();
        Guard guard = testing.guard("payments").idempotent();
        Operation<String, IOException> failing =
                attempt -> {
                    runs.incrementAndGet();
                    throw new IOException("boom");
                };
        IOException ended =
                assertThrows(
                        IOException.class,
                        () -> guard.call(outer -> guard.call(middle -> guard.call(failing))));
        assertEquals(3, runs.get());
        DenialReason reason = Holdoff.whyStopped(ended).orElseThrow().reason();
        assertEquals(DenialReason.RETRIED_BELOW, reason);
    }

    @Test
    void guardedCallsThatBlockNoThreadDoNotMultiplyInsideOneAnotherEither() {
        AtomicInteger runs = new AtomicInteger();
        Guard guard = testing.guard("payments").idempotent();
        AsyncOperation<String> failing =
                attempt -> {
                    runs.incrementAndGet();
                    return CompletableFuture.failedFuture(new IOException("boom"));
                };
        CompletableFuture<String> call =
                guard.callAsync(outer -> guard.callAsync(middle -> guard.callAsync(failing)));
        CompletionException ended = assertThrows(CompletionException.class, call::join);
        assertEquals(3, runs.get());
        DenialReason reason = Holdoff.whyStopped(ended).orElseThrow().reason();
        assertEquals(DenialReason.RETRIED_BELOW, reason);
    }

    @Test
    void whatACallBeforeLeftInAnExceptionDoesNotEndTheNextOne() {
        IOException same = new IOException("thrown again and again");
        AtomicInteger runs = new AtomicInteger();
        for (int call = 1; call <= 3; call++) {
            assertThrows(
                    IOException.class,
                    () ->
                            testing.guard("payments")
                                    .idempotent()
                                    .call(
                                            attempt -> {
                                                runs.incrementAndGet();
                                                throw same;
                                            }));
            assertEquals(3 * call, runs.get());
        }
    }

    @Test
    void aCallThatIsDeniedBelowIsNoFailureOfTheOneAbove() throws Exception {
        try (Scripted service = Scripted.start().answer(request -> InterceptorTest.open());
                Holdoff below = service.client().build()) {
            AtomicInteger runs = new AtomicInteger();
            assertThrows(
                    DeniedException.class,
                    () ->
                            testing.guard("shop")
                                    .idempotent()
                                    .call(
                                            outer -> {
                                                runs.incrementAndGet();
                                                return below.call("payments", inner -> "done");
                                            }));
            assertEquals(1, runs.get());
        }
    }
}
