package io.holdoff.client.service;

import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.ServerBuilder;
import io.grpc.ServerCredentials;
import io.grpc.ServerInterceptor;
import io.grpc.stub.StreamObserver;
import io.holdoff.client.Holdoff;
import io.holdoff.client.HoldoffBuilder;
import io.holdoff.client.v1.AcquireBatchResponse;
import io.holdoff.client.v1.AcquireItem;
import io.holdoff.client.v1.AcquireRequest;
import io.holdoff.client.v1.AcquireResponse;
import io.holdoff.client.v1.CoordinatorServiceGrpc.CoordinatorServiceImplBase;
import io.holdoff.client.v1.Grant;
import io.holdoff.client.v1.PlanCheckRequest;
import io.holdoff.client.v1.PlanCheckResponse;
import io.holdoff.client.v1.ReportEntry;
import io.holdoff.client.v1.ReportRequest;
import io.holdoff.client.v1.ReportResponse;
import io.holdoff.client.v1.SessionRequest;
import io.holdoff.client.v1.SessionResponse;
import io.holdoff.client.v1.Update;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Function;

/** A service that answers as a test says, and keeps what it was told. */
public final class Scripted implements AutoCloseable {
    private final List<AcquireRequest> asked = new CopyOnWriteArrayList<>();
    private final List<ReportEntry> reported = new CopyOnWriteArrayList<>();
    private final List<Update> updates = new CopyOnWriteArrayList<>();
    private final Server server;
    private final int port;
    private volatile Function<AcquireRequest, AcquireResponse> answer = request -> grantNow();
    private volatile Function<PlanCheckRequest, PlanCheckResponse> plan =
            request -> PlanCheckResponse.getDefaultInstance();

    private Scripted(int port, ServerCredentials credentials, ServerInterceptor... interceptors)
            throws IOException {
        ServerBuilder<?> builder =
                Grpc.newServerBuilderForPort(port, credentials).addService(new Service());
        for (ServerInterceptor interceptor : interceptors) {
            builder.intercept(interceptor);
        }
        server = builder.build().start();
        this.port = server.getPort();
    }

    public static Scripted start() throws IOException {
        return new Scripted(0, InsecureServerCredentials.create());
    }

    /** In the place of one that was closed. */
    public static Scripted startAgain(int port) throws IOException {
        return new Scripted(port, InsecureServerCredentials.create());
    }

    public static Scripted start(ServerCredentials credentials, ServerInterceptor... interceptors)
            throws IOException {
        return new Scripted(0, credentials, interceptors);
    }

    /** Null is never sent. */
    public Scripted answer(Function<AcquireRequest, AcquireResponse> by) {
        answer = by;
        return this;
    }

    public Scripted plan(Function<PlanCheckRequest, PlanCheckResponse> by) {
        plan = by;
        return this;
    }

    /** Is pushed when a session begins. */
    public Scripted push(Update update) {
        updates.add(update);
        return this;
    }

    public int port() {
        return port;
    }

    /** Of a client that has time, since a test's machine may have none. */
    public HoldoffBuilder client() {
        return Holdoff.builder()
                .endpoints("http://127.0.0.1:" + port())
                .instance("test-1")
                .timeout(java.time.Duration.ofSeconds(5));
    }

    public List<AcquireRequest> asked() {
        return asked;
    }

    public List<ReportEntry> reported() {
        return reported;
    }

    public static AcquireResponse grantNow() {
        return grantAfter(0);
    }

    public static AcquireResponse grantAfter(int millis) {
        Duration delay = Duration.newBuilder().setNanos(millis * 1_000_000).build();
        Grant grant =
                Grant.newBuilder()
                        .setDelay(delay)
                        .setPermit(ByteString.copyFromUtf8("permit"))
                        .build();
        return AcquireResponse.newBuilder().setGrant(grant).setStateValue(1).setEpoch(1).build();
    }

    @Override
    public void close() {
        server.shutdownNow();
    }

    private final class Service extends CoordinatorServiceImplBase {
        @Override
        public StreamObserver<SessionRequest> session(StreamObserver<SessionResponse> out) {
            return new StreamObserver<>() {
                @Override
                public void onNext(SessionRequest request) {
                    take(request, out);
                }

                @Override
                public void onError(Throwable gone) {
                    // The client has left.
                }

                @Override
                public void onCompleted() {
                    out.onCompleted();
                }
            };
        }

        private void take(SessionRequest request, StreamObserver<SessionResponse> out) {
            SessionResponse.Builder response = SessionResponse.newBuilder().setId(request.getId());
            switch (request.getMessageCase()) {
                case HELLO ->
                        updates.forEach(
                                update ->
                                        out.onNext(
                                                SessionResponse.newBuilder()
                                                        .setUpdate(update)
                                                        .build()));
                case ACQUIRE -> {
                    AcquireBatchResponse.Builder batch = AcquireBatchResponse.newBuilder();
                    for (AcquireRequest question : request.getAcquire().getRequestsList()) {
                        asked.add(question);
                        AcquireResponse said = answer.apply(question);
                        if (said == null) {
                            return;
                        }
                        batch.addItems(AcquireItem.newBuilder().setResponse(said));
                    }
                    out.onNext(response.setAcquired(batch).build());
                }
                case REPORT -> {
                    reported.addAll(request.getReport().getEntriesList());
                    out.onNext(response.setReported(ReportResponse.getDefaultInstance()).build());
                }
                case SUBSCRIBE, MESSAGE_NOT_SET -> {}
            }
        }

        @Override
        public void report(ReportRequest request, StreamObserver<ReportResponse> out) {
            reported.addAll(request.getEntriesList());
            out.onNext(ReportResponse.getDefaultInstance());
            out.onCompleted();
        }

        @Override
        public void planCheck(PlanCheckRequest request, StreamObserver<PlanCheckResponse> out) {
            out.onNext(plan.apply(request));
            out.onCompleted();
        }
    }
}
