package io.holdoff.client.rules;

import io.holdoff.client.Outcome;
import io.holdoff.client.OutcomeKind;
import java.util.List;
import java.util.OptionalLong;

/** What the status of a gRPC call says about an attempt. */
public final class GrpcRules {
    private GrpcRules() {}

    /**
     * By code, with {@code grpc-retry-pushback-ms}.
     *
     * @param pushback all values of the trailer, in order
     */
    public static Outcome classify(int code, List<String> pushback) {
        Outcome outcome = Outcome.of(kind(code)).statusCode(code);
        if (code == 0 || pushback.isEmpty()) {
            return outcome;
        }
        // Two values contradict each other.
        OptionalLong wait =
                pushback.size() == 1 ? Pushback.ofGrpc(pushback.get(0)) : OptionalLong.empty();
        return wait.isPresent()
                ? outcome.grpcPushback(Nanos.toDuration(wait.getAsLong()))
                : outcome.doNotRetry();
    }

    private static OutcomeKind kind(int code) {
        return switch (code) {
            case 0 -> OutcomeKind.SUCCESS;
            case 1 -> OutcomeKind.CANCELLED;
            case 4 -> OutcomeKind.TIMEOUT;
            case 8 -> OutcomeKind.THROTTLED;
            case 2, 13, 14, 15 -> OutcomeKind.FAILURE;
            default -> OutcomeKind.REJECTED;
        };
    }
}
