package io.holdoff.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Metadata;
import io.grpc.Status;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.ConnectException;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpTimeoutException;
import java.nio.channels.ClosedByInterruptException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;

/** What is read from the end of an attempt. */
final class ClassifierTest {
    private static OutcomeKind kind(Throwable error) {
        return Classifier.error(error).kind();
    }

    @Test
    void b15WhereThereIsOneHopWhatNeverLeftWasNotSentAndABrokenConnectionMayHaveDelivered() {
        Classifier oneHop = Classifier.oneHop();
        for (Exception unsent :
                List.of(
                        new ConnectException("refused"),
                        new UnknownHostException("nowhere"),
                        new CompletionException(new IOException(new ConnectException())))) {
            assertEquals(OutcomeKind.NOT_SENT, oneHop.classify(null, unsent).kind());
        }
        assertEquals(Outcome.failure(), oneHop.classify(null, new SocketException("reset")));
    }

    @Test
    void whereNothingIsKnownOfHopsARefusedConnectionMayBeThatOfALaterOne() {
        for (Exception refused :
                List.of(
                        new ConnectException("refused"),
                        new UnknownHostException("nowhere"),
                        new CompletionException(new IOException(new ConnectException())))) {
            assertEquals(OutcomeKind.FAILURE, kind(refused));
            assertEquals(Outcome.failure(), Classifier.standard().classify(null, refused));
        }
    }

    @Test
    void timeoutsOfAllLayersAreTimeouts() {
        // As HttpClient throws it.
        Exception connecting = new HttpConnectTimeoutException("syn");
        connecting.initCause(new ConnectException("syn"));
        for (Exception timeout :
                List.of(
                        connecting,
                        new TimeoutException(),
                        new SocketTimeoutException(),
                        new HttpTimeoutException("late"))) {
            assertEquals(OutcomeKind.TIMEOUT, kind(timeout));
            Exception wrapped = new CompletionException(timeout);
            assertEquals(OutcomeKind.TIMEOUT, kind(wrapped));
        }
    }

    @Test
    void whatTheCallerGaveUpSaysNothing() {
        assertEquals(OutcomeKind.CANCELLED, kind(new InterruptedException()));
        assertEquals(OutcomeKind.CANCELLED, kind(new CancellationException()));
        assertEquals(OutcomeKind.CANCELLED, kind(new ClosedByInterruptException()));
    }

    @Test
    void anInterruptedReadIsTheCallersWhereItsThreadIsInterruptedAndATimeoutElsewhere() {
        // OkHttp's timeout of a call, and those of Apache's client while it connects.
        InterruptedIOException ended = new InterruptedIOException("timeout");
        assertEquals(OutcomeKind.TIMEOUT, kind(ended));
        Thread.currentThread().interrupt();
        try {
            assertEquals(OutcomeKind.CANCELLED, kind(ended));
            assertEquals(OutcomeKind.TIMEOUT, kind(new SocketTimeoutException()));
        } finally {
            assertTrue(Thread.interrupted());
        }
    }

    @Test
    void aGuardedCallBelowTellsItsLastRealErrorAndWhetherItRetried() {
        Denied why = Denied.byCaller(DenialReason.ATTEMPTS_EXHAUSTED, "");
        IOException once = new SocketTimeoutException();
        Stopped.attach(once, why, 1);
        assertEquals(Outcome.timeout(), Classifier.error(once));
        IOException often = new ConnectException("refused");
        Stopped.attach(often, why, 3);
        Outcome failure = Outcome.failure();
        assertEquals(failure.retriedBelow(), Classifier.error(often));
        assertEquals(failure.retriedBelow(), Classifier.error(new RuntimeException(often)));
        Outcome notSent = Outcome.of(OutcomeKind.NOT_SENT);
        assertEquals(notSent.retriedBelow(), Classifier.oneHop().classify(null, often));
        assertEquals(Outcome.timeout(), Classifier.error(TimedOutException.of(why, 1)));
        assertEquals(
                Outcome.timeout().retriedBelow(), Classifier.error(TimedOutException.of(why, 2)));
    }

    @Test
    void aCallThatWasDeniedBelowSaysNothingWhateverItIsWrappedIn() {
        Denied why = Denied.byCaller(DenialReason.BREAKER_OPEN, "");
        DeniedException denied = new DeniedException(why, 0);
        for (Exception error :
                List.of(
                        denied,
                        new IOException("holdoff", denied),
                        Status.UNAVAILABLE.withCause(denied).asRuntimeException())) {
            assertEquals(OutcomeKind.IGNORED, kind(error));
        }
        // In two steps, after attempts that failed.
        assertEquals(Outcome.failure(), Classifier.error(new DeniedException(why, 1)));
        assertEquals(
                Outcome.failure().retriedBelow(), Classifier.error(new DeniedException(why, 2)));
    }

    @Test
    void causesThatGoRoundAreLookedAtOnce() {
        IOException one = new IOException("one");
        IOException two = new IOException("two", one);
        one.initCause(two);
        assertEquals(OutcomeKind.FAILURE, kind(one));
    }

    @Test
    void b07GrpcPushbackWaitsOrForbids() {
        assertEquals(Duration.ofSeconds(1), pushback("1000").pushback().orElseThrow());
        assertTrue(pushback("1000").isBackoffRestarted());
        assertTrue(pushback("-1").isRetryForbidden());
        assertTrue(pushback("1000", "1000").isRetryForbidden());
        Status refused = Status.UNAVAILABLE.withCause(new ConnectException());
        assertEquals(OutcomeKind.NOT_SENT, kind(refused.asException()));
    }

    private static Outcome pushback(String... values) {
        Metadata trailers = new Metadata();
        for (String value : values) {
            trailers.put(StandardClassifier.PUSHBACK, value);
        }
        return Classifier.error(Status.UNAVAILABLE.asRuntimeException(trailers));
    }

    @Test
    void namesOfHeadersHaveNoCase() {
        Map<String, List<String>> headers = Map.of("Retry-After", List.of("7"));
        Outcome outcome = Classifier.http(429, headers);
        assertEquals(OutcomeKind.THROTTLED, outcome.kind());
        assertEquals(Duration.ofSeconds(7), outcome.pushback().orElseThrow());
    }
}
