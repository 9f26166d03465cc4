package io.holdoff.client.driver;

import com.google.protobuf.Duration;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.stub.StreamObserver;
import io.holdoff.client.Holdoff;
import io.holdoff.client.Question;
import io.holdoff.client.v1.AcquireBatchResponse;
import io.holdoff.client.v1.AcquireItem;
import io.holdoff.client.v1.AcquireResponse;
import io.holdoff.client.v1.CoordinatorServiceGrpc.CoordinatorServiceImplBase;
import io.holdoff.client.v1.Grant;
import io.holdoff.client.v1.ReportResponse;
import io.holdoff.client.v1.SessionRequest;
import io.holdoff.client.v1.SessionResponse;
import java.io.IOException;

/** Makes some calls against a service that grants all, so that all classes are loaded. */
final class WarmUp {
    private static final int CALLS = 300;

    private WarmUp() {}

    static void run() throws IOException, InterruptedException {
        Server server =
                Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                        .addService(new GrantsAll())
                        .build()
                        .start();
        Holdoff holdoff =
                Holdoff.builder()
                        .endpoints("http://127.0.0.1:" + server.getPort())
                        .timeout(java.time.Duration.ofSeconds(1))
                        .build();
        try (holdoff) {
            holdoff.connect(java.time.Duration.ofSeconds(5));
            for (int call = 0; call < CALLS; call++) {
                int failing = call % 3;
                holdoff.guard(Question.of("warm/" + call % 7).idempotent())
                        .callOr(
                                attempt -> {
                                    if (attempt.number() <= failing) {
                                        throw new IllegalStateException("cold");
                                    }
                                    return "warm";
                                },
                                why -> "denied");
            }
        } finally {
            server.shutdownNow();
        }
    }

    private static final class GrantsAll extends CoordinatorServiceImplBase {
        @Override
        public StreamObserver<SessionRequest> session(StreamObserver<SessionResponse> out) {
            return new StreamObserver<>() {
                @Override
                public void onNext(SessionRequest request) {
                    answer(request, out);
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

        private static void answer(SessionRequest request, StreamObserver<SessionResponse> out) {
            SessionResponse.Builder response = SessionResponse.newBuilder().setId(request.getId());
            if (request.hasReport()) {
                out.onNext(response.setReported(ReportResponse.getDefaultInstance()).build());
            } else if (request.hasAcquire()) {
                AcquireBatchResponse.Builder batch = AcquireBatchResponse.newBuilder();
                Grant grant = Grant.newBuilder().setDelay(Duration.getDefaultInstance()).build();
                AcquireResponse granted = AcquireResponse.newBuilder().setGrant(grant).build();
                request.getAcquire()
                        .getRequestsList()
                        .forEach(any -> batch.addItems(AcquireItem.newBuilder().setResponse(granted)));
                out.onNext(response.setAcquired(batch).build());
            }
        }
    }
}
