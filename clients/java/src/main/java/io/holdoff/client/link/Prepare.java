package io.holdoff.client.link;

import com.google.protobuf.ByteString;
import io.holdoff.client.Outcome;
import io.holdoff.client.v1.AcquireBatch;
import io.holdoff.client.v1.AcquireBatchResponse;
import io.holdoff.client.v1.AcquireItem;
import io.holdoff.client.v1.AcquireRequest;
import io.holdoff.client.v1.AcquireResponse;
import io.holdoff.client.v1.CoordinatorServiceGrpc;
import io.holdoff.client.v1.Grant;
import io.holdoff.client.v1.Previous;
import io.holdoff.client.v1.SessionRequest;
import io.holdoff.client.v1.SessionResponse;
import java.io.IOException;
import java.io.InputStream;

/**
 * Writes and reads one message of each kind, to nobody, while the program does something else. A
 * new process loads a hundred classes for its first question, which would take longer than a call
 * may wait.
 */
final class Prepare {
    private Prepare() {}

    static void messages() {
        var method = CoordinatorServiceGrpc.getSessionMethod();
        Previous previous = Previous.newBuilder().setOutcome(Wire.write(Outcome.failure())).build();
        AcquireRequest question = AcquireRequest.newBuilder().setPrevious(previous).build();
        AcquireBatch questions = AcquireBatch.newBuilder().addRequests(question).build();
        Grant grant = Grant.newBuilder().setDelay(Wire.writeNanos(0)).setPermit(ByteString.EMPTY).build();
        AcquireResponse granted = AcquireResponse.newBuilder().setGrant(grant).build();
        AcquireItem item = AcquireItem.newBuilder().setResponse(granted).build();
        AcquireBatchResponse answers = AcquireBatchResponse.newBuilder().addItems(item).build();
        try (InputStream asked =
                        method.streamRequest(SessionRequest.newBuilder().setAcquire(questions).build());
                InputStream said =
                        method.getResponseMarshaller()
                                .stream(SessionResponse.newBuilder().setAcquired(answers).build())) {
            asked.readAllBytes();
            SessionResponse read = method.parseResponse(said);
            Wire.read(read.getAcquired().getItems(0).getResponse());
        } catch (IOException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
