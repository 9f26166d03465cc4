package io.holdoff.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import io.holdoff.client.service.Scripted;
import java.io.ByteArrayInputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandler;
import java.net.http.HttpResponse.BodyHandlers;
import java.net.http.HttpResponse.BodySubscribers;
import java.net.http.HttpTimeoutException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Requests of an {@link HttpClient} as guarded calls. */
@Timeout(60)
final class HttpClientTest {
    private final AtomicInteger requests = new AtomicInteger();
    private final HttpClient client = HttpClient.newHttpClient();
    private HttpServer server;
    private URI uri;

    /** Is unavailable for its first two requests. */
    @BeforeEach
    void start() throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext(
                "/",
                exchange -> {
                    exchange.getRequestBody().readAllBytes();
                    int status = requests.incrementAndGet() <= 2 ? 503 : 200;
                    exchange.sendResponseHeaders(status, -1);
                    exchange.close();
                });
        server.start();
        uri = URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/");
    }

    @AfterEach
    void stop() {
        server.stop(0);
    }

    @Test
    void getIsRetriedAndPostIsReturnedAsItIs() throws Exception {
        HttpClient http = HoldoffHttpClient.byHost(Holdoff.testing(), client);
        HttpRequest post = HttpRequest.newBuilder(uri).POST(BodyPublishers.ofString("x")).build();
        assertEquals(503, http.send(post, BodyHandlers.discarding()).statusCode());
        assertEquals(1, requests.get());
        HttpRequest get = HttpRequest.newBuilder(uri).build();
        assertEquals(200, http.send(get, BodyHandlers.discarding()).statusCode());
        assertEquals(3, requests.get());
    }

    @Test
    void aRequestWithoutAThreadIsRetriedToo() {
        HttpClient http = HoldoffHttpClient.byHost(Holdoff.testing(), client);
        HttpRequest get = HttpRequest.newBuilder(uri).build();
        assertEquals(200, http.sendAsync(get, BodyHandlers.discarding()).join().statusCode());
        assertEquals(3, requests.get());
    }

    @Test
    void aBodyThatIsAStreamIsSentOnce() throws Exception {
        HttpClient http = HoldoffHttpClient.byHost(Holdoff.testing(), client);
        var body = BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(new byte[10]));
        HttpRequest put = HttpRequest.newBuilder(uri).PUT(body).build();
        assertEquals(503, http.send(put, BodyHandlers.discarding()).statusCode());
        assertEquals(1, requests.get());
    }

    @Test
    void b15ARefusedConnectionWasNotSentSoThatEvenPostIsRepeated() {
        server.stop(0);
        HttpClient http = HoldoffHttpClient.byHost(Holdoff.testing(), client);
        HttpRequest post = HttpRequest.newBuilder(uri).POST(BodyPublishers.ofString("x")).build();
        IOException refused =
                assertThrows(IOException.class, () -> http.send(post, BodyHandlers.discarding()));
        DenialReason reason = Holdoff.whyStopped(refused).orElseThrow().reason();
        assertEquals(DenialReason.ATTEMPTS_EXHAUSTED, reason);
    }

    @Test
    void whereRedirectsAreFollowedARefusedConnectionMayBeThatOfALaterHop() throws Exception {
        moveToNowhere(307);
        HttpClient following =
                HttpClient.newBuilder().followRedirects(HttpClient.Redirect.NORMAL).build();
        HttpClient http = HoldoffHttpClient.byHost(Holdoff.testing(), following);
        HttpRequest post =
                HttpRequest.newBuilder(uri.resolve("/moved"))
                        .POST(BodyPublishers.ofString("x"))
                        .build();
        IOException now =
                assertThrows(IOException.class, () -> http.send(post, BodyHandlers.discarding()));
        assertEquals(DenialReason.RETRY_UNSAFE, Holdoff.whyStopped(now).orElseThrow().reason());
        assertEquals(1, requests.get());
        var later = http.sendAsync(post, BodyHandlers.discarding());
        CompletionException ended = assertThrows(CompletionException.class, later::join);
        assertEquals(DenialReason.RETRY_UNSAFE, Holdoff.whyStopped(ended).orElseThrow().reason());
        assertEquals(2, requests.get());
    }

    /** From {@code /moved}. */
    private void moveToNowhere(int status) throws IOException {
        URI nowhere;
        try (ServerSocket closed = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            nowhere = URI.create("http://127.0.0.1:" + closed.getLocalPort() + "/");
        }
        server.createContext(
                "/moved",
                exchange -> {
                    requests.incrementAndGet();
                    exchange.getRequestBody().readAllBytes();
                    exchange.getResponseHeaders().add("Location", nowhere.toString());
                    exchange.sendResponseHeaders(status, -1);
                    exchange.close();
                });
    }

    @Test
    void aPostThatAnUnguardedClientRedirectsToNowhereIsMadeOnceInAGuardedCall() throws Exception {
        moveToNowhere(303);
        Holdoff holdoff = Holdoff.testing();
        HttpClient following =
                HttpClient.newBuilder().followRedirects(HttpClient.Redirect.NORMAL).build();
        HttpRequest post =
                HttpRequest.newBuilder(uri.resolve("/moved"))
                        .POST(BodyPublishers.ofString("x"))
                        .build();
        Operation<Object, IOException> old =
                attempt -> {
                    var connection = (HttpURLConnection) post.uri().toURL().openConnection();
                    connection.setDoOutput(true);
                    connection.getOutputStream().write('x');
                    return connection.getResponseCode();
                };
        Operation<Object, Exception> send =
                attempt -> following.send(post, BodyHandlers.discarding());
        for (Operation<Object, ?> operation : List.of(old, send)) {
            requests.set(0);
            IOException now =
                    assertThrows(IOException.class, () -> holdoff.call("payments", operation));
            assertEquals(DenialReason.RETRY_UNSAFE, Holdoff.whyStopped(now).orElseThrow().reason());
            assertEquals(1, requests.get());
        }
    }

    @Test
    void aPostWithAKeyIsRetriedToo() throws Exception {
        HttpClient http = HoldoffHttpClient.byHost(Holdoff.testing(), client);
        HttpRequest post =
                HttpRequest.newBuilder(uri)
                        .header("Idempotency-Key", "k-1")
                        .POST(BodyPublishers.ofString("x"))
                        .build();
        assertEquals(200, http.send(post, BodyHandlers.discarding()).statusCode());
        assertEquals(3, requests.get());
    }

    @Test
    void aRequestWhoseAttemptsWereAllCutOffEndsAsTheClientDoesOnATimeout() throws Exception {
        try (ServerSocket silent = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            HttpClient http =
                    HoldoffHttpClient.of(
                            Holdoff.testing(),
                            client,
                            request -> Question.of("silent").deadline(Duration.ofMillis(100)));
            URI nowhere = URI.create("http://127.0.0.1:" + silent.getLocalPort() + "/");
            HttpRequest get = HttpRequest.newBuilder(nowhere).build();
            HttpTimeoutException late =
                    assertThrows(
                            HttpTimeoutException.class,
                            () -> http.send(get, BodyHandlers.discarding()));
            assertEquals(DenialReason.DEADLINE, Holdoff.whyStopped(late).orElseThrow().reason());
        }
    }

    @Test
    void aRequestThatIsRefusedIsAnIoExceptionThatSaysWhy() throws Exception {
        try (Scripted service = Scripted.start().answer(request -> InterceptorTest.open());
                Holdoff holdoff = service.client().build()) {
            HttpClient http = HoldoffHttpClient.byHost(holdoff, client);
            HttpRequest get = HttpRequest.newBuilder(uri).build();
            IOException now =
                    assertThrows(IOException.class, () -> http.send(get, BodyHandlers.discarding()));
            assertEquals(DenialReason.BREAKER_OPEN, Holdoff.whyStopped(now).orElseThrow().reason());
            var later = http.sendAsync(get, BodyHandlers.discarding());
            CompletionException ended = assertThrows(CompletionException.class, later::join);
            assertEquals(IOException.class, ended.getCause().getClass());
            assertEquals(0, requests.get());
        }
    }

    private final AtomicInteger opened = new AtomicInteger();
    private final AtomicInteger closed = new AtomicInteger();

    private BodyHandler<InputStream> stream() {
        return info -> BodySubscribers.mapping(BodySubscribers.ofInputStream(), this::counted);
    }

    private InputStream counted(InputStream body) {
        opened.incrementAndGet();
        return new FilterInputStream(body) {
            @Override
            public void close() throws IOException {
                closed.incrementAndGet();
                super.close();
            }
        };
    }

    private BodyHandler<Stream<String>> lines() {
        return info ->
                BodySubscribers.mapping(
                        BodySubscribers.ofLines(StandardCharsets.UTF_8),
                        body -> {
                            opened.incrementAndGet();
                            return body.onClose(closed::incrementAndGet);
                        });
    }

    private BodyHandler<Flow.Publisher<List<ByteBuffer>>> publisher() {
        return info ->
                BodySubscribers.mapping(
                        BodySubscribers.ofPublisher(),
                        body -> {
                            opened.incrementAndGet();
                            return to -> body.subscribe(new Counted(to));
                        });
    }

    /** Counts what is cancelled. */
    private final class Counted implements Flow.Subscriber<List<ByteBuffer>> {
        private final Flow.Subscriber<? super List<ByteBuffer>> to;

        private Counted(Flow.Subscriber<? super List<ByteBuffer>> to) {
            this.to = to;
        }

        @Override
        public void onSubscribe(Flow.Subscription subscription) {
            to.onSubscribe(
                    new Flow.Subscription() {
                        @Override
                        public void request(long parts) {
                            subscription.request(parts);
                        }

                        @Override
                        public void cancel() {
                            closed.incrementAndGet();
                            subscription.cancel();
                        }
                    });
        }

        @Override
        public void onNext(List<ByteBuffer> part) {
            to.onNext(part);
        }

        @Override
        public void onError(Throwable broken) {
            to.onError(broken);
        }

        @Override
        public void onComplete() {
            to.onComplete();
        }
    }

    @Test
    void beforeAnotherAttemptTheBodyOfTheResponseBeforeItIsClosed() throws Exception {
        HttpClient http = HoldoffHttpClient.byHost(Holdoff.testing(), client);
        HttpRequest get = HttpRequest.newBuilder(uri).build();
        for (BodyHandler<?> handler : List.of(stream(), lines(), publisher())) {
            requests.set(0);
            opened.set(0);
            closed.set(0);
            assertEquals(200, http.send(get, handler).statusCode());
            assertEquals(3, opened.get());
            assertEquals(2, closed.get());
            requests.set(0);
            assertEquals(200, http.sendAsync(get, handler).join().statusCode());
            assertEquals(6, opened.get());
            assertEquals(4, closed.get());
        }
    }

    @Test
    void aRequestThatIsCancelledWhileItWaitsClosesTheBodyOfTheResponseBefore() throws Exception {
        CountDownLatch isAsked = new CountDownLatch(1);
        Scripted service =
                Scripted.start()
                        .answer(
                                request -> {
                                    if (request.getAttempt() == 1) {
                                        return Scripted.grantNow();
                                    }
                                    isAsked.countDown();
                                    return Scripted.grantAfter(900);
                                });
        try (service;
                Holdoff holdoff = service.client().build()) {
            HttpClient http = HoldoffHttpClient.byHost(holdoff, client);
            HttpRequest get = HttpRequest.newBuilder(uri).build();
            var call = http.sendAsync(get, stream());
            assertTrue(isAsked.await(10, TimeUnit.SECONDS));
            call.cancel(true);
            assertEquals(1, opened.get());
            assertEquals(1, closed.get());
        }
    }
}
