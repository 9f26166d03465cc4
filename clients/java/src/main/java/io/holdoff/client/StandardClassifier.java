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
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.UnresolvedAddressException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.TimeoutException;

/**
 * Reads what can be told without knowing the program. An error, with its causes, by the first that
 * applies: what a guarded call below came to, the caller's own cancelling, a connection that could
 * not be made, a timeout of any layer.
 */
enum StandardClassifier implements Classifier {
    /** A call may have been redirected: a connection that was refused does not say it was not sent. */
    STANDARD,
    /** The connection is this attempt's own. */
    ONE_HOP;

    static final Metadata.Key<String> PUSHBACK =
            Metadata.Key.of("grpc-retry-pushback-ms", Metadata.ASCII_STRING_MARSHALLER);

    @Override
    public Outcome classify(Object value, Throwable error) {
        if (error == null) {
            return value instanceof HttpResponse<?> response
                    ? Classifier.http(response.statusCode(), response.headers())
                    : Outcome.success();
        }
        Outcome known = null;
        boolean wasRetried = false;
        int depth = 0;
        Throwable at = error;
        for (; at != null && depth < Stopped.CAUSES_MAX; at = at.getCause(), depth++) {
            if (at instanceof DeniedException denied && denied.attempts() == 0) {
                return Outcome.of(OutcomeKind.IGNORED);
            }
            wasRetried |= wasRetriedBelow(at);
            known = known == null ? read(at) : known;
        }
        Outcome outcome = known == null ? Outcome.failure() : known;
        return wasRetried ? outcome.retriedBelow() : outcome;
    }

    private static boolean wasRetriedBelow(Throwable error) {
        if (error instanceof TimedOutException late) {
            return late.attempts() > 1;
        }
        if (error instanceof DeniedException denied) {
            return denied.attempts() > 1;
        }
        Stopped stopped = Stopped.in(error);
        return stopped != null && stopped.wasRetried();
    }

    /** Null: it is nothing that this knows. */
    private Outcome read(Throwable error) {
        if (error instanceof StatusRuntimeException status) {
            return Classifier.grpc(status.getStatus(), status.getTrailers());
        }
        if (error instanceof StatusException status) {
            return Classifier.grpc(status.getStatus(), status.getTrailers());
        }
        if (isGivenUp(error)) {
            return Outcome.cancelled();
        }
        if (this == ONE_HOP && wasNotSent(error)) {
            return Outcome.of(OutcomeKind.NOT_SENT);
        }
        boolean isLate =
                error instanceof TimedOutException
                        || error instanceof HttpTimeoutException
                        || error instanceof InterruptedIOException
                        || error instanceof TimeoutException;
        return isLate ? Outcome.timeout() : null;
    }

    /**
     * An interrupted read is the caller's doing only where its thread is still interrupted: it is
     * also how OkHttp and Apache's client say that it took too long.
     */
    private static boolean isGivenUp(Throwable error) {
        if (error instanceof InterruptedIOException && !(error instanceof SocketTimeoutException)) {
            return Thread.currentThread().isInterrupted();
        }
        return error instanceof InterruptedException
                || error instanceof CancellationException
                || error instanceof ClosedByInterruptException;
    }

    /** A connection that broke may have delivered the request; one that was refused has not. */
    private static boolean wasNotSent(Throwable error) {
        return error instanceof ConnectException
                || error instanceof NoRouteToHostException
                || error instanceof UnknownHostException
                || error instanceof UnresolvedAddressException;
    }

    static boolean isNotSent(Status status) {
        if (status.getCode() != Status.Code.UNAVAILABLE) {
            return false;
        }
        int depth = 0;
        Throwable at = status.getCause();
        for (; at != null && depth < Stopped.CAUSES_MAX; at = at.getCause(), depth++) {
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
