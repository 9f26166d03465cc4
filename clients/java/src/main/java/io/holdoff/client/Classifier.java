package io.holdoff.client;

import io.grpc.Metadata;
import io.grpc.Status;
import io.holdoff.client.rules.GrpcRules;
import io.holdoff.client.rules.HttpRules;
import java.net.http.HttpHeaders;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/**
 * How the end of an attempt is read.
 *
 * <p>{@link #standard()} is used unless another one is named. A value that counts as a failure,
 * such as an HTTP response with status 503, is retried, and returned as it is where there is no
 * further attempt.
 */
@FunctionalInterface
public interface Classifier {
    /**
     * Reads the end of an attempt. Where it throws, or returns null, the outcome is ignored: there
     * is no further attempt, and the caller gets what the attempt came to. A {@link
     * VirtualMachineError} passes through.
     *
     * @param value what it returned, where {@code error} is null
     * @param error what it threw, or null
     * @return its outcome
     */
    Outcome classify(Object value, Throwable error);

    /**
     * Reads what it knows: responses of {@link java.net.http.HttpClient} by their status, gRPC
     * errors by their code (not sent where the connection was refused), timeouts, interrupts and
     * cancelled futures. Any other value is a success, any other exception a failure.
     *
     * <p>What a guarded call below this one threw is read as its last real error, and not retried
     * where that call has retried; a {@link DeniedException} of one that was never made is ignored.
     *
     * <p>Any other connection that was refused is a failure, since {@link
     * java.net.HttpURLConnection} and others follow redirects, and it may be that of a later hop of
     * a request that was sent; {@link #oneHop()} knows better.
     *
     * @return the classifier that is used where none is named
     */
    static Classifier standard() {
        return StandardClassifier.STANDARD;
    }

    /**
     * As {@link #standard()}, for a library that makes one connection for each call and follows no
     * redirects: a connection that was refused, or a host that is not known, is read as not sent,
     * so that even an unsafe call is made again.
     *
     * @return a classifier that takes each connection for this attempt's own
     */
    static Classifier oneHop() {
        return StandardClassifier.ONE_HOP;
    }

    /**
     * Any value is a success, any exception a failure.
     *
     * @return a classifier that looks no further
     */
    static Classifier plain() {
        return (value, error) -> error == null ? Outcome.success() : Outcome.failure();
    }

    /**
     * Reads an HTTP response.
     *
     * <table>
     * <caption>By status</caption>
     * <tr><th>status</th><th>outcome</th></tr>
     * <tr><td>1xx</td><td>ignored</td></tr>
     * <tr><td>2xx, 3xx</td><td>success</td></tr>
     * <tr><td>408, 504</td><td>timeout</td></tr>
     * <tr><td>421, 425</td><td>failure</td></tr>
     * <tr><td>429</td><td>throttled</td></tr>
     * <tr><td>other 4xx, 501, 505</td><td>rejected</td></tr>
     * <tr><td>other 5xx</td><td>failure</td></tr>
     * </table>
     *
     * <p>{@code Retry-After} counts on 408, 429 and all 5xx: whole seconds, or one of the three
     * date forms, counted from the response's own {@code Date}. Anything else is ignored, and so
     * are two of them.
     *
     * @param status the status code
     * @param headers of the response
     * @return its outcome
     */
    static Outcome http(int status, HttpHeaders headers) {
        return HttpRules.classify(
                status,
                headers.allValues("retry-after"),
                headers.allValues("date"),
                Instant.now().getEpochSecond());
    }

    /**
     * Reads an HTTP response of another client.
     *
     * @param status the status code
     * @param headers of the response; names are compared without their case
     * @return its outcome
     * @see #http(int, HttpHeaders)
     */
    static Outcome http(int status, Map<String, List<String>> headers) {
        return http(status, HttpHeaders.of(headers, (name, value) -> true));
    }

    /**
     * Reads the end of a gRPC call: DEADLINE_EXCEEDED is a timeout, CANCELLED cancelled,
     * RESOURCE_EXHAUSTED throttled; UNAVAILABLE, UNKNOWN, INTERNAL and DATA_LOSS are failures
     * (not sent where the connection was refused), all others rejected. {@code
     * grpc-retry-pushback-ms} in whole milliseconds is waited for; negative, unreadable or
     * repeated, it forbids the retry.
     *
     * @param status of the call
     * @param trailers of the call, or null
     * @return its outcome
     */
    static Outcome grpc(Status status, Metadata trailers) {
        Iterable<String> values = trailers == null ? null : trailers.getAll(StandardClassifier.PUSHBACK);
        List<String> pushback = values == null ? List.of() : StandardClassifier.list(values);
        Outcome outcome = GrpcRules.classify(status.getCode().value(), pushback);
        return StandardClassifier.isNotSent(status) ? StandardClassifier.notSent(outcome) : outcome;
    }

    /**
     * Reads an exception as {@link #standard()} does, through its causes.
     *
     * @param error what was thrown
     * @return its outcome
     */
    static Outcome error(Throwable error) {
        return StandardClassifier.STANDARD.classify(null, error);
    }
}
