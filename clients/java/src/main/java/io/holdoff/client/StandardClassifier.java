package io.holdoff.client;

import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.StatusRuntimeException;
import java.io.InterruptedIOException;
import java.net.ConnectException;
import java.net.NoRouteToHostException;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.channels.UnresolvedAddressException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.TimeoutException;

/** Reads what can be told without knowing the program. */
enum StandardClassifier implements Classifier {
    INSTANCE;

    static final Metadata.Key<String> PUSHBACK =
            Metadata.Key.of("grpc-retry-pushback-ms", Metadata.ASCII_STRING_MARSHALLER);

    private static final int CAUSES_MAX = 16;

    @Override
    public Outcome classify(Object value, Throwable error) {
        if (error == null) {
            return value instanceof HttpResponse<?> response
                    ? Classifier.http(response.statusCode(), response.headers())
                    : Outcome.success();
        }
        int depth = 0;
        for (Throwable at = error; at != null && depth < CAUSES_MAX; at = at.getCause(), depth++) {
            Outcome outcome = read(at);
            if (outcome != null) {
                return outcome;
            }
        }
        return Outcome.failure();
    }

    /** Null: it is nothing that this knows. */
    private static Outcome read(Throwable error) {
        if (error instanceof StatusRuntimeException status) {
            return Classifier.grpc(status.getStatus(), status.getTrailers());
        }
        if (error instanceof StatusException status) {
            return Classifier.grpc(status.getStatus(), status.getTrailers());
        }
        if (wasNotSent(error)) {
            return Outcome.of(OutcomeKind.NOT_SENT);
        }
        if (error instanceof HttpTimeoutException
                || error instanceof SocketTimeoutException
                || error instanceof TimeoutException) {
            return Outcome.timeout();
        }
        boolean isGivenUp =
                error instanceof InterruptedException
                        || error instanceof InterruptedIOException
                        || error instanceof CancellationException;
        return isGivenUp ? Outcome.cancelled() : null;
    }

    /** A connection that broke may have delivered the request; one that was refused has not. */
    private static boolean wasNotSent(Throwable error) {
        return error instanceof ConnectException
                || error instanceof NoRouteToHostException
                || error instanceof UnknownHostException
                || error instanceof UnresolvedAddressException
                || error instanceof HttpConnectTimeoutException;
    }

    static boolean isNotSent(Status status) {
        if (status.getCode() != Status.Code.UNAVAILABLE) {
            return false;
        }
        int depth = 0;
        Throwable at = status.getCause();
        for (; at != null && depth < CAUSES_MAX; at = at.getCause(), depth++) {
            if (wasNotSent(at)) {
                return true;
            }
        }
        return false;
    }

    static Outcome notSent(Outcome outcome) {
        Outcome notSent = Outcome.of(OutcomeKind.NOT_SENT).statusCode(outcome.statusCode());
        return outcome.isRetryForbidden() ? notSent.doNotRetry() : notSent;
    }

    static List<String> list(Iterable<String> values) {
        List<String> list = new ArrayList<>();
        values.forEach(list::add);
        return list;
    }
}
