package io.holdoff.client;

import java.io.IOException;
import java.net.Authenticator;
import java.net.CookieHandler;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.net.http.WebSocket;
import java.time.Duration;
import java.util.Locale;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.Function;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;

/**
 * An {@link HttpClient} whose requests are guarded calls.
 *
 * <pre>{@code
 * HttpClient http = HoldoffHttpClient.byHost(holdoff, HttpClient.newHttpClient());
 * HttpResponse<String> response = http.send(request, BodyHandlers.ofString());
 * }</pre>
 *
 * <p>Responses are read by their status ({@link Classifier#http}) and returned as they are where
 * there is no further attempt. The error of a request that was sent is the client's own; that of
 * one that was refused is an {@link IOException} in which {@link Holdoff#whyStopped} finds the
 * reason, and a {@link HttpTimeoutException} where all attempts were cut off. A connection that is
 * refused counts as not sent only with a client that follows no redirects: elsewhere it may be that
 * of a later hop. A request whose body has no known length is a stream, and is sent once.
 * Before another attempt the body of the response before it is closed; where that attempt is cut off,
 * it is the closed one that is returned. WebSockets are not guarded.
 */
public final class HoldoffHttpClient extends HttpClient {
    /** May be repeated: RFC 9110, 9.2.2. */
    private static final Set<String> IDEMPOTENT =
            Set.of("GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE");

    private final Holdoff holdoff;
    private final HttpClient client;
    private final Function<HttpRequest, Question> question;
    private final OnDenied onDenied;

    private HoldoffHttpClient(
            Holdoff holdoff,
            HttpClient client,
            Function<HttpRequest, Question> question,
            OnDenied onDenied) {
        this.holdoff = Objects.requireNonNull(holdoff, "holdoff");
        this.client = Objects.requireNonNull(client, "client");
        this.question = Objects.requireNonNull(question, "question");
        this.onDenied = Objects.requireNonNull(onDenied, "onDenied");
    }

    /**
     * A client.
     *
     * @param holdoff is asked
     * @param client sends
     * @param question names, for each request, what is called and whether it may be repeated
     * @return a client that waits for nothing when the answer is no
     */
    public static HoldoffHttpClient of(
            Holdoff holdoff, HttpClient client, Function<HttpRequest, Question> question) {
        return new HoldoffHttpClient(holdoff, client, question, OnDenied.FAIL);
    }

    /**
     * A client that takes the request's host for the dependency, with the port where that is not
     * the scheme's own. GET, HEAD, OPTIONS, TRACE, PUT and DELETE may be repeated, and whatever has
     * an {@code Idempotency-Key}.
     *
     * @param holdoff is asked
     * @param client sends
     * @return a client that waits for nothing when the answer is no
     */
    public static HoldoffHttpClient byHost(Holdoff holdoff, HttpClient client) {
        return of(holdoff, client, HoldoffHttpClient::byHost);
    }

    /**
     * What happens when the answer is no.
     *
     * @param when {@link OnDenied#FAIL} unless said
     * @return a new client
     */
    public HoldoffHttpClient onDenied(OnDenied when) {
        return new HoldoffHttpClient(holdoff, client, question, when);
    }

    static Question byHost(HttpRequest request) {
        URI uri = request.uri();
        String host = uri.getHost().toLowerCase(Locale.ROOT).replaceAll("[^a-z0-9._:-]", "");
        int usual = "https".equalsIgnoreCase(uri.getScheme()) ? 443 : 80;
        boolean isUsual = uri.getPort() == -1 || uri.getPort() == usual;
        Question asked = Question.of(isUsual ? host : host + ":" + uri.getPort());
        if (!request.headers().firstValue("Idempotency-Key").orElse("").isEmpty()) {
            return asked.safety(Safety.KEYED);
        }
        String method = request.method().toUpperCase(Locale.ROOT);
        return IDEMPOTENT.contains(method) ? asked.idempotent() : asked;
    }

    private Guard guard(HttpRequest request) {
        Question asked = question.apply(request);
        boolean isStream =
                request.bodyPublisher().map(body -> body.contentLength() < 0).orElse(false);
        return holdoff.guard(isStream ? asked.maxAttempts(1) : asked)
                .onDenied(onDenied)
                .classify(classifier());
    }

    /** What cannot be connected to may be a later hop of a request that was sent. */
    private Classifier classifier() {
        return client.followRedirects() == Redirect.NEVER
                ? Classifier.oneHop()
                : Classifier.standard();
    }

    @Override
    public <T> HttpResponse<T> send(HttpRequest request, HttpResponse.BodyHandler<T> handler)
            throws IOException, InterruptedException {
        LastResponse<T> last = new LastResponse<>();
        Operation<HttpResponse<T>, Exception> send =
                attempt -> {
                    last.leave();
                    return last.keep(client.send(request, handler));
                };
        try {
            return guard(request).call(send);
        } catch (DeniedException | TimedOutException denied) {
            throw refused(denied);
        } catch (IOException | InterruptedException | RuntimeException own) {
            throw own;
        } catch (Exception impossible) {
            // It sends nothing else that is checked.
            throw new IllegalStateException(impossible);
        }
    }

    @Override
    public <T> CompletableFuture<HttpResponse<T>> sendAsync(
            HttpRequest request, HttpResponse.BodyHandler<T> handler) {
        return sendAsync(request, () -> client.sendAsync(request, handler));
    }

    @Override
    public <T> CompletableFuture<HttpResponse<T>> sendAsync(
            HttpRequest request,
            HttpResponse.BodyHandler<T> handler,
            HttpResponse.PushPromiseHandler<T> pushed) {
        return sendAsync(request, () -> client.sendAsync(request, handler, pushed));
    }

    private <T> CompletableFuture<HttpResponse<T>> sendAsync(
            HttpRequest request, Supplier<CompletableFuture<HttpResponse<T>>> send) {
        LastResponse<T> last = new LastResponse<>();
        CompletableFuture<HttpResponse<T>> call =
                guard(request)
                        .callAsync(
                                attempt -> {
                                    last.leave();
                                    return kept(last, send.get());
                                });
        return shown(last, call);
    }

    private static <T> CompletableFuture<HttpResponse<T>> kept(
            LastResponse<T> last, CompletableFuture<HttpResponse<T>> sent) {
        CompletableFuture<HttpResponse<T>> kept = new Cancellable<>(() -> sent.cancel(true));
        sent.whenComplete(
                (response, error) -> {
                    if (error != null) {
                        kept.completeExceptionally(Later.cause(error));
                    } else if (!kept.complete(last.keep(response))) {
                        // It came as it was cancelled.
                        LastResponse.close(response.body());
                    }
                });
        return kept;
    }

    private static <T> CompletableFuture<HttpResponse<T>> shown(
            LastResponse<T> last, CompletableFuture<HttpResponse<T>> call) {
        CompletableFuture<HttpResponse<T>> shown = new Cancellable<>(() -> call.cancel(true));
        call.whenComplete(
                (response, error) -> {
                    if (error != null) {
                        last.leave();
                    }
                    if (error instanceof DeniedException || error instanceof TimedOutException) {
                        shown.completeExceptionally(refused(error));
                    } else if (error != null) {
                        shown.completeExceptionally(error);
                    } else {
                        shown.complete(response);
                    }
                });
        return shown;
    }

    private static IOException refused(Throwable denied) {
        String text = "holdoff: " + denied.getMessage();
        if (!(denied instanceof TimedOutException)) {
            return new IOException(text, denied);
        }
        HttpTimeoutException late = new HttpTimeoutException(text);
        late.initCause(denied);
        return late;
    }

    @Override
    public Optional<CookieHandler> cookieHandler() {
        return client.cookieHandler();
    }

    @Override
    public Optional<Duration> connectTimeout() {
        return client.connectTimeout();
    }

    @Override
    public Redirect followRedirects() {
        return client.followRedirects();
    }

    @Override
    public Optional<ProxySelector> proxy() {
        return client.proxy();
    }

    @Override
    public SSLContext sslContext() {
        return client.sslContext();
    }

    @Override
    public SSLParameters sslParameters() {
        return client.sslParameters();
    }

    @Override
    public Optional<Authenticator> authenticator() {
        return client.authenticator();
    }

    @Override
    public Version version() {
        return client.version();
    }

    @Override
    public Optional<Executor> executor() {
        return client.executor();
    }

    @Override
    public WebSocket.Builder newWebSocketBuilder() {
        return client.newWebSocketBuilder();
    }
}
