package io.holdoff.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.InsecureServerCredentials;
import io.grpc.ManagedChannel;
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
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Calls of a generated stub as guarded calls. The stubs at hand stand for any. */
@Timeout(60)
final class InterceptorTest {
    private final AtomicInteger calls = new AtomicInteger();
    private Server server;
    private ManagedChannel channel;

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
            out.onNext(WatchEventsResponse.getDefaultInstance());
            out.onNext(WatchEventsResponse.getDefaultInstance());
            out.onError(Status.INTERNAL.asException());
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
        try (Scripted service = Scripted.start();
                Holdoff holdoff = service.client().build()) {
            Channel guarded = guarded(holdoff, Question.of("ledger").idempotent());
            var events =
                    OperatorServiceGrpc.newBlockingStub(guarded)
                            .watchEvents(WatchEventsRequest.getDefaultInstance());
            events.next();
            events.next();
            assertThrows(StatusRuntimeException.class, events::next);
            assertTrue(holdoff.flush(Duration.ofSeconds(10)));
            assertEquals(1, calls.get());
            assertEquals(1, service.asked().size());
            var outcome = service.reported().get(0).getResult().getOutcome();
            assertEquals("OUTCOME_KIND_FAILURE", outcome.getKind().name());
        }
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
