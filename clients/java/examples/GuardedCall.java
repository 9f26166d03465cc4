import com.sun.net.httpserver.HttpServer;
import io.holdoff.client.Counters;
import io.holdoff.client.Holdoff;
import io.holdoff.client.HoldoffHttpClient;
import io.holdoff.client.OnDenied;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Everything a guarded call can do: no hop while all is well, HTTP statuses and `Retry-After`, a
 * deadline, waiting when the answer is no, a fallback, and the error of a call that was given up.
 */
final class GuardedCall {
    private GuardedCall() {}

    public static void main(String[] arguments) throws Exception {
        HttpServer shop = shop();
        URI items = URI.create("http://127.0.0.1:" + shop.getAddress().getPort() + "/items");
        Holdoff holdoff =
                Holdoff.builder()
                        .endpoints("http://127.0.0.1:7460")
                        .service("checkout")
                        .timeout(Duration.ofMillis(50))
                        .follow("catalogue")
                        .build();
        try (holdoff) {
            System.out.println("-- while the dependency is well, calls ask nothing");
            holdoff.connect(Duration.ofMillis(500));
            for (int call = 0; call < 1_000; call++) {
                holdoff.call("catalogue", attempt -> "an item");
            }
            Counters counters = holdoff.counters();
            System.out.printf(
                    "1000 calls: %d without a hop, %d asked, %d decided here%n",
                    counters.pushedGrants(), counters.answered(), counters.localGrants());

            System.out.println("-- a response with Retry-After is waited for");
            HttpClient http = HttpClient.newHttpClient();
            HttpRequest request = HttpRequest.newBuilder(items).build();
            HttpResponse<String> response =
                    holdoff.guard("inventory")
                            .idempotent()
                            .deadline(Duration.ofSeconds(5))
                            .onDenied(OnDenied.WAIT)
                            .call(
                                    attempt -> {
                                        System.out.println("attempt " + attempt.number());
                                        return send(http, request);
                                    });
            System.out.println("status " + response.statusCode());

            System.out.println("-- an unsafe call that may have been executed is not repeated");
            try {
                holdoff.call("payments", attempt -> reset());
            } catch (IOException last) {
                System.out.println("the last real error: " + last.getMessage());
                System.out.println(
                        "why there was no retry: " + Holdoff.whyStopped(last).orElseThrow().reason());
            }

            System.out.println("-- a fallback where the call is given up");
            int price = holdoff.guard("prices").callOr(attempt -> noRoute(), why -> 42);
            System.out.println("a price from the cache: " + price);

            System.out.println("-- without blocking a thread");
            CompletableFuture<String> later =
                    holdoff.callAsync("catalogue", attempt -> CompletableFuture.supplyAsync(() -> "later"));
            System.out.println(later.join());

            System.out.println("-- the same as an HttpClient");
            HttpClient guarded = HoldoffHttpClient.byHost(holdoff, http);
            System.out.println(guarded.send(request, BodyHandlers.ofString()).body());
        } finally {
            shop.stop(0);
        }
    }

    private static HttpResponse<String> send(HttpClient http, HttpRequest request) throws Exception {
        return http.send(request, BodyHandlers.ofString());
    }

    private static String reset() throws IOException {
        throw new IOException("connection reset");
    }

    private static int noRoute() throws IOException {
        throw new IOException("no route");
    }

    /** Is too busy for its first request. */
    private static HttpServer shop() throws IOException {
        AtomicInteger requests = new AtomicInteger();
        HttpServer server =
                HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext(
                "/items",
                exchange -> {
                    byte[] body = "hello".getBytes();
                    boolean isBusy = requests.incrementAndGet() == 1;
                    if (isBusy) {
                        exchange.getResponseHeaders().add("Retry-After", "1");
                    }
                    exchange.sendResponseHeaders(isBusy ? 429 : 200, body.length);
                    exchange.getResponseBody().write(body);
                    exchange.close();
                });
        server.start();
        return server;
    }
}
