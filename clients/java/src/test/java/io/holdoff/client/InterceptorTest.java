package io.holdoff.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.InsecureServerCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import io.holdoff.client.service.Scripted;
import io.holdoff.client.v1.AcquireResponse;
import io.holdoff.client.v1.Denial;
import io.holdoff.client.v1.GetDependencyRequest;
import io.holdoff.client.v1.GetDependencyResponse;
import io.holdoff.client.v1.OperatorServiceGrpc;
import io.holdoff.client.v1.WatchEventsRequest;
import io.holdoff.client.v1.WatchEventsResponse;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Calls of a generated stub as guarded calls. The stubs at hand stand for any. */
@Timeout(60)
final class InterceptorTest {
    private final AtomicInteger calls = new AtomicInteger();
    private final List<ClientCall<?, ?>> open = new CopyOnWriteArrayList<>();
    private Server server;
    private ManagedChannel channel;
    private volatile Consumer<StreamObserver<WatchEventsResponse>> watched =
            out -> {
                out.onNext(WatchEventsResponse.getDefaultInstance());
                out.onNext(WatchEventsResponse.getDefaultInstance());
                out.onError(Status.INTERNAL.asException());
            };

    /** Is unavailable for its first two calls. */
    private final class Flaky extends OperatorServiceGrpc.OperatorServiceImplBase {
        @Override
        public void getDependency(
                GetDependencyRequest request, StreamObserver<GetDependencyResponse> out) {
            if (calls.incrementAndGet() <= 2) {
                out.onError(Status.UNAVAILABLE.withDescription("not yet").asException());
                return;
            }
            out.onNext(GetDependencyResponse.getDefaultInstance());
            out.onCompleted();
        }

        @Override
        public void watchEvents(WatchEventsRequest request, StreamObserver<WatchEventsResponse> out) {
            calls.incrementAndGet();
            watched.accept(out);
        }
    }

    @BeforeEach
    void start() throws IOException {
        server =
                Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                        .addService(new Flaky())
                        .build()
                        .start();
        channel =
                Grpc.newChannelBuilderForAddress(
                                "127.0.0.1", server.getPort(), InsecureChannelCredentials.create())
                        .build();
    }

    @AfterEach
    void stop() {
        channel.shutdownNow();
        server.shutdownNow();
    }

    private Channel guarded(Holdoff holdoff, Question question) {
        return ClientInterceptors.intercept(channel, HoldoffInterceptor.of(holdoff, m -> question));
    }

    private static final GetDependencyRequest REQUEST = GetDependencyRequest.getDefaultInstance();

    /** What is heard of one call. */
    private static final class Heard<R> extends ClientCall.Listener<R> {
        private final CompletableFuture<R> message = new CompletableFuture<>();
        private final CompletableFuture<Status> status = new CompletableFuture<>();

        @Override
        public void onMessage(R came) {
            message.complete(came);
        }

        @Override
        public void onClose(Status ended, Metadata trailers) {
            status.complete(ended);
        }

        private Status ended() throws Exception {
            return status.get(10, TimeUnit.SECONDS);
        }
    }

    private <Q, R> Heard<R> begin(Channel on, MethodDescriptor<Q, R> method, Q request) {
        return begin(on, method, request, CallOptions.DEFAULT);
    }

    private <Q, R> Heard<R> begin(
            Channel on, MethodDescriptor<Q, R> method, Q request, CallOptions options) {
        ClientCall<Q, R> call = on.newCall(method, options);
        open.add(call);
        Heard<R> heard = new Heard<>();
        call.start(heard, new Metadata());
        call.request(2);
        call.sendMessage(request);
        call.halfClose();
        return heard;
    }

    private Heard<WatchEventsResponse> watch(Channel on) {
        return begin(
                on,
                OperatorServiceGrpc.getWatchEventsMethod(),
                WatchEventsRequest.getDefaultInstance());
    }

    private Heard<GetDependencyResponse> get(Channel on) {
        return begin(on, OperatorServiceGrpc.getGetDependencyMethod(), REQUEST);
    }

    private static List<String> kinds(Scripted service) {
        return service.reported().stream()
                .map(entry -> entry.getResult().getOutcome().getKind().name())
                .toList();
    }

    @Test
    void aUnaryCallIsRetriedUnderABlockingStubAndUnderAFutureOne() throws Exception {
        Channel guarded = guarded(Holdoff.testing(), Question.of("ledger").idempotent());
        OperatorServiceGrpc.newBlockingStub(guarded).getDependency(REQUEST);
        assertEquals(3, calls.get());
        calls.set(0);
        OperatorServiceGrpc.newFutureStub(guarded).getDependency(REQUEST).get(10, TimeUnit.SECONDS);
        assertEquals(3, calls.get());
    }

    @Test
    void theLastRealStatusComesOutWithTheReasonInIt() {
        Channel guarded = guarded(Holdoff.testing(), Question.of("ledger"));
        var stub = OperatorServiceGrpc.newBlockingStub(guarded);
        StatusRuntimeException ended =
                assertThrows(StatusRuntimeException.class, () -> stub.getDependency(REQUEST));
        assertEquals(Status.Code.UNAVAILABLE, ended.getStatus().getCode());
        assertEquals("not yet", ended.getStatus().getDescription());
        assertEquals(DenialReason.RETRY_UNSAFE, Holdoff.whyStopped(ended).orElseThrow().reason());
        assertEquals(1, calls.get());
    }

    static AcquireResponse open() {
        Denial denial = Denial.newBuilder().setReasonValue(10).build();
        return AcquireResponse.newBuilder().setDenial(denial).setStateValue(2).build();
    }

    @Test
    void aRefusedCallEndsWithAStatusAndNeverLeaves() throws Exception {
        try (Scripted service = Scripted.start().answer(request -> open());
                Holdoff holdoff = service.client().build()) {
            Channel guarded = guarded(holdoff, Question.of("ledger"));
            var stub = OperatorServiceGrpc.newBlockingStub(guarded);
            StatusRuntimeException ended =
                    assertThrows(StatusRuntimeException.class, () -> stub.getDependency(REQUEST));
            assertEquals(Status.Code.UNAVAILABLE, ended.getStatus().getCode());
            assertEquals(DenialReason.BREAKER_OPEN, Holdoff.whyStopped(ended).orElseThrow().reason());
            var events = stub.watchEvents(WatchEventsRequest.getDefaultInstance());
            assertThrows(StatusRuntimeException.class, events::hasNext);
            assertEquals(0, calls.get());
        }
    }

    @Test
    void aStreamIsAskedForOnceReportedAndNeverRepeated() throws Exception {
        watched = out -> out.onError(Status.INTERNAL.asException());
        try (Scripted service = Scripted.start();
                Holdoff holdoff = service.client().build()) {
            Channel guarded = guarded(holdoff, Question.of("ledger").idempotent());
            assertEquals(Status.Code.INTERNAL, watch(guarded).ended().getCode());
            assertTrue(holdoff.flush(Duration.ofSeconds(10)));
            assertEquals(1, calls.get());
            assertEquals(1, service.asked().size());
            assertEquals(List.of("OUTCOME_KIND_FAILURE"), kinds(service));
        }
    }

    @Test
    void aStreamIsASuccessWithItsFirstMessageWhateverItsEndWillBe() throws Exception {
        CompletableFuture<StreamObserver<WatchEventsResponse>> answering = new CompletableFuture<>();
        watched =
                out -> {
                    out.onNext(WatchEventsResponse.getDefaultInstance());
                    answering.complete(out);
                };
        try (Scripted service = Scripted.start();
                Holdoff holdoff = service.client().build()) {
            Heard<?> heard = watch(guarded(holdoff, Question.of("ledger")));
            heard.message.get(10, TimeUnit.SECONDS);
            assertTrue(holdoff.flush(Duration.ofSeconds(10)));
            assertEquals(List.of("OUTCOME_KIND_SUCCESS"), kinds(service));
            answering.join().onError(Status.INTERNAL.asException());
            assertEquals(Status.Code.INTERNAL, heard.ended().getCode());
            assertTrue(holdoff.flush(Duration.ofSeconds(10)));
            assertEquals(1, service.reported().size());
        }
    }

    @Test
    void aProbeThatIsAStreamIsCutOffBeforeItsLeaseEndsUnlessAMessageCame() throws Exception {
        Consumer<StreamObserver<WatchEventsResponse>> silent = out -> {};
        for (var answered : List.of(silent, watched)) {
            watched = answered;
            try (Scripted service = Scripted.start().answer(request -> probe());
                    Holdoff holdoff = service.client().build()) {
                Status ended = watch(guarded(holdoff, Question.of("ledger"))).ended();
                boolean isCut = answered == silent;
                Status.Code code = isCut ? Status.Code.DEADLINE_EXCEEDED : Status.Code.INTERNAL;
                assertEquals(code, ended.getCode());
                assertTrue(holdoff.flush(Duration.ofSeconds(10)));
                String kind = isCut ? "OUTCOME_KIND_TIMEOUT" : "OUTCOME_KIND_SUCCESS";
                assertEquals(List.of(kind), kinds(service));
            }
        }
    }

    /** With a lease of which half is left for the attempt. */
    private static AcquireResponse probe() {
        AcquireResponse.Builder granted = Scripted.grantNow().toBuilder();
        granted.getGrantBuilder()
                .setProbe(true)
                .setPermitTtl(com.google.protobuf.Duration.newBuilder().setNanos(200_000_000));
        return granted.build();
    }

    @Test
    void aStreamThatIsCancelledWhileItWaitsGivesItsPermitBack() throws Exception {
        try (Scripted service = Scripted.start().answer(request -> Scripted.grantAfter(900));
                Holdoff holdoff = service.client().build()) {
            Heard<?> heard = watch(guarded(holdoff, Question.of("ledger")));
            until(() -> holdoff.counters().answered() == 1);
            open.get(0).cancel("not wanted", null);
            Status ended = heard.ended();
            assertEquals(Status.Code.CANCELLED, ended.getCode());
            assertEquals("not wanted", ended.getDescription());
            until(() -> !service.reported().isEmpty());
            assertEquals(List.of("OUTCOME_KIND_CANCELLED"), kinds(service));
            assertEquals(0, calls.get());
        }
    }

    @Test
    void aPermitThatIsGrantedAfterItsStreamWasCancelledIsGivenBack() throws Exception {
        CountDownLatch isAsked = new CountDownLatch(1);
        CountDownLatch mayAnswer = new CountDownLatch(1);
        Scripted service =
                Scripted.start()
                        .answer(
                                request -> {
                                    isAsked.countDown();
                                    await(mayAnswer);
                                    return Scripted.grantNow();
                                });
        try (service;
                Holdoff holdoff = service.client().build()) {
            Heard<?> heard = watch(guarded(holdoff, Question.of("ledger")));
            await(isAsked);
            open.get(0).cancel("not wanted", null);
            assertEquals(Status.Code.CANCELLED, heard.ended().getCode());
            mayAnswer.countDown();
            until(() -> !service.reported().isEmpty());
            assertEquals(List.of("OUTCOME_KIND_CANCELLED"), kinds(service));
            assertEquals(0, calls.get());
        }
    }

    private static void until(BooleanSupplier isSo) throws InterruptedException {
        while (!isSo.getAsBoolean()) {
            TimeUnit.MILLISECONDS.sleep(1);
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            assertTrue(latch.await(10, TimeUnit.SECONDS));
        } catch (InterruptedException odd) {
            throw new IllegalStateException(odd);
        }
    }

    @Test
    void aUnaryCallThatIsCancelledWhileItWaitsEndsCancelled() throws Exception {
        try (Scripted service = Scripted.start().answer(request -> Scripted.grantAfter(900));
                Holdoff holdoff = service.client().build()) {
            Heard<?> heard = get(guarded(holdoff, Question.of("ledger")));
            open.get(0).cancel("not wanted", null);
            Status ended = heard.ended();
            assertEquals(Status.Code.CANCELLED, ended.getCode());
            assertEquals("not wanted", ended.getDescription());
            assertEquals(0, calls.get());
        }
    }

    private static final Context.Key<String> TRACE = Context.key("trace");

    @Test
    void allAttemptsAndWhatIsHeardOfThemRunInTheContextOfTheirCall() throws Exception {
        List<String> seen = new CopyOnWriteArrayList<>();
        ClientInterceptor looking =
                new ClientInterceptor() {
                    @Override
                    public <Q, R> ClientCall<Q, R> interceptCall(
                            MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
                        seen.add(String.valueOf(TRACE.get()));
                        return next.newCall(method, options);
                    }
                };
        try (Scripted service = Scripted.start();
                Holdoff holdoff = service.client().build()) {
            Channel guarded =
                    ClientInterceptors.intercept(
                            channel,
                            looking,
                            HoldoffInterceptor.of(holdoff, m -> Question.of("ledger").idempotent()));
            Context context = Context.current().withValue(TRACE, "inbound");
            Heard<?> unary = context.call(() -> get(guarded));
            assertEquals(Status.Code.OK, unary.ended().getCode());
            Heard<?> stream = context.call(() -> watch(guarded));
            assertEquals(Status.Code.INTERNAL, stream.ended().getCode());
            assertEquals(List.of("inbound", "inbound", "inbound", "inbound"), seen);
        }
    }

    @Test
    void aCallIsGivenUpWithItsContext() throws Exception {
        try (Scripted service = Scripted.start().answer(request -> Scripted.grantAfter(900));
                Holdoff holdoff = service.client().build()) {
            Channel guarded = guarded(holdoff, Question.of("ledger"));
            Context.CancellableContext context = Context.current().withCancellation();
            Heard<?> unary = context.call(() -> get(guarded));
            Heard<?> stream = context.call(() -> watch(guarded));
            until(() -> holdoff.counters().answered() == 2);
            context.cancel(null);
            assertEquals(Status.Code.CANCELLED, unary.ended().getCode());
            assertEquals(Status.Code.CANCELLED, stream.ended().getCode());
            until(() -> service.reported().size() == 2);
            String cancelled = "OUTCOME_KIND_CANCELLED";
            assertEquals(List.of(cancelled, cancelled), kinds(service));
            assertEquals(0, calls.get());
        }
    }

    @Test
    void theNearestOfAllDeadlinesIsThatOfTheWholeCall() throws Exception {
        try (Scripted service = Scripted.start().answer(request -> Scripted.grantAfter(900));
                Holdoff holdoff = service.client().build()) {
            Question longer = Question.of("ledger").deadline(Duration.ofSeconds(30));
            var stub =
                    OperatorServiceGrpc.newBlockingStub(guarded(holdoff, longer))
                            .withDeadlineAfter(20, TimeUnit.SECONDS);
            ScheduledExecutorService timers = Executors.newSingleThreadScheduledExecutor();
            try (var context =
                    Context.current().withDeadlineAfter(500, TimeUnit.MILLISECONDS, timers)) {
                StatusRuntimeException ended =
                        assertThrows(
                                StatusRuntimeException.class,
                                () -> context.call(() -> stub.getDependency(REQUEST)));
                assertEquals(Status.Code.DEADLINE_EXCEEDED, ended.getStatus().getCode());
                long left = service.asked().get(0).getTimeLeft().getNanos();
                assertTrue(left > 0 && left <= 500_000_000, () -> left + " ns left");
            } finally {
                timers.shutdownNow();
            }
            assertEquals(0, calls.get());
        }
    }

    @Test
    void aStreamEndsWithTheNearestOfTheDeadlinesOfItsStubAndOfItsQuestion() throws Exception {
        watched = out -> {};
        List<Deadline> seen = new CopyOnWriteArrayList<>();
        ClientInterceptor looking =
                new ClientInterceptor() {
                    @Override
                    public <Q, R> ClientCall<Q, R> interceptCall(
                            MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
                        seen.add(options.getDeadline());
                        return next.newCall(method, options);
                    }
                };
        try (Scripted service = Scripted.start().answer(request -> Scripted.grantAfter(100));
                Holdoff holdoff = service.client().build()) {
            AtomicReference<Duration> own = new AtomicReference<>(Duration.ofSeconds(1));
            Channel guarded =
                    ClientInterceptors.intercept(
                            channel, looking, HoldoffInterceptor.of(
                                    holdoff, m -> Question.of("ledger").deadline(own.get())));
            assertEquals(Status.Code.DEADLINE_EXCEEDED, watch(guarded).ended().getCode());
            assertTrue(holdoff.flush(Duration.ofSeconds(10)));
            assertEquals(List.of("OUTCOME_KIND_TIMEOUT"), kinds(service));

            own.set(Duration.ofSeconds(60));
            Deadline nearer = Deadline.after(30, TimeUnit.SECONDS);
            begin(
                    guarded,
                    OperatorServiceGrpc.getWatchEventsMethod(),
                    WatchEventsRequest.getDefaultInstance(),
                    CallOptions.DEFAULT.withDeadline(nearer));
            until(() -> seen.size() == 2);
            assertEquals(nearer, seen.get(1));
        }
    }

    @Test
    void guardedChannelsUnderOneAnotherDoNotMultiply() {
        Channel below = guarded(Holdoff.testing(), Question.of("ledger").idempotent());
        HoldoffInterceptor above =
                HoldoffInterceptor.of(Holdoff.testing(), m -> Question.of("ledger").idempotent());
        var stub = OperatorServiceGrpc.newBlockingStub(ClientInterceptors.intercept(below, above));
        calls.set(-100);
        StatusRuntimeException ended =
                assertThrows(StatusRuntimeException.class, () -> stub.getDependency(REQUEST));
        assertEquals(-97, calls.get());
        assertEquals(Status.Code.UNAVAILABLE, ended.getStatus().getCode());
        assertEquals(DenialReason.RETRIED_BELOW, Holdoff.whyStopped(ended).orElseThrow().reason());
    }

    @Test
    void theDeadlineOfAStubIsThatOfTheWholeCall() throws Exception {
        try (Scripted service = Scripted.start().answer(request -> Scripted.grantAfter(900));
                Holdoff holdoff = service.client().build()) {
            Channel guarded = guarded(holdoff, Question.of("ledger"));
            var stub =
                    OperatorServiceGrpc.newBlockingStub(guarded)
                            .withDeadlineAfter(500, TimeUnit.MILLISECONDS);
            StatusRuntimeException ended =
                    assertThrows(StatusRuntimeException.class, () -> stub.getDependency(REQUEST));
            assertEquals(Status.Code.DEADLINE_EXCEEDED, ended.getStatus().getCode());
            assertEquals(0, calls.get());
        }
    }
}
