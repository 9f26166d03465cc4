package io.holdoff.client.driver;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.holdoff.client.Attempt;
import io.holdoff.client.Classifier;
import io.holdoff.client.Denied;
import io.holdoff.client.DenialReason;
import io.holdoff.client.DeniedBy;
import io.holdoff.client.DeniedException;
import io.holdoff.client.Guard;
import io.holdoff.client.Holdoff;
import io.holdoff.client.Outcome;
import io.holdoff.client.TimedOutException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** One call, and what the user's function does at each of its runs. */
final class OneCall {
    private static final ScheduledExecutorService TIMES =
            Executors.newScheduledThreadPool(
                    2,
                    task -> {
                        Thread thread = new Thread(task, "driver-times");
                        thread.setDaemon(true);
                        return thread;
                    });

    private static final HttpClient HTTP =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    private final Guard guard;
    private final JsonObject step;
    private final boolean isAsync;
    private final long begun = System.nanoTime();
    private final JsonArray starts = new JsonArray();
    private volatile boolean isCancelled;

    OneCall(Guard guard, JsonObject step, boolean isAsync) {
        this.guard = guard.classify(OneCall::read);
        this.step = step;
        this.isAsync = isAsync;
    }

    JsonObject make() throws InterruptedException {
        JsonObject shown = new JsonObject();
        shown.add("value", JsonNull.INSTANCE);
        shown.add("error", JsonNull.INSTANCE);
        shown.add("reason", JsonNull.INSTANCE);
        shown.add("by", JsonNull.INSTANCE);
        shown.add("retry_after_ms", JsonNull.INSTANCE);
        try {
            shown.addProperty("value", isAsync ? later() : now());
        } catch (DeniedException denied) {
            Play.show(shown, denied.denied());
        } catch (TimedOutException late) {
            Play.show(shown, late.denied());
        } catch (Exception error) {
            failed(shown, error);
        }
        synchronized (starts) {
            shown.addProperty("runs", starts.size());
            shown.add("starts_ms", starts.deepCopy());
        }
        shown.addProperty("total_ms", millis());
        Thread.interrupted();
        return shown;
    }

    private void failed(JsonObject shown, Exception error) {
        Denied why =
                Holdoff.whyStopped(error)
                        .orElse(new Denied(DenialReason.CANCELLED, DeniedBy.CALLER, Optional.empty(), ""));
        Play.show(shown, isCancelled ? cancelled() : why);
        if (!(error instanceof InterruptedException) && !(error instanceof CancellationException)) {
            shown.addProperty("error", text(error));
        }
    }

    private static Denied cancelled() {
        return new Denied(DenialReason.CANCELLED, DeniedBy.CALLER, Optional.empty(), "");
    }

    private String now() throws Exception {
        Thread caller = Thread.currentThread();
        var timer = cancelAfter(caller::interrupt);
        try {
            return fallback() == null
                    ? guard.call(this::run)
                    : guard.callOr(this::run, why -> fallback());
        } finally {
            timer.cancel(false);
        }
    }

    private String later() throws Exception {
        CompletableFuture<String> call = guard.callAsync(this::runLater);
        var timer = cancelAfter(() -> call.cancel(true));
        try {
            return call.get();
        } catch (ExecutionException failed) {
            if (fallback() != null) {
                return fallback();
            }
            throw (Exception) failed.getCause();
        } finally {
            timer.cancel(false);
        }
    }

    private java.util.concurrent.Future<?> cancelAfter(Runnable cancel) {
        if (!Clients.has(step, "cancel_after_ms")) {
            return CompletableFuture.completedFuture(null);
        }
        long after = step.get("cancel_after_ms").getAsLong();
        return TIMES.schedule(
                () -> {
                    isCancelled = true;
                    cancel.run();
                },
                after,
                TimeUnit.MILLISECONDS);
    }

    private String fallback() {
        return Clients.text(step, "fallback", null);
    }

    private String run(Attempt attempt) throws Exception {
        JsonObject entry = begin();
        long takes = Clients.number(entry, "takes_ms", Clients.number(step, "takes_ms", 0));
        if (takes > 0) {
            Thread.sleep(takes);
        }
        return end(entry, attempt);
    }

    private CompletionStage<String> runLater(Attempt attempt) {
        JsonObject entry = begin();
        long takes = Clients.number(entry, "takes_ms", Clients.number(step, "takes_ms", 0));
        CompletableFuture<String> ended = new CompletableFuture<>();
        Runnable end =
                () -> {
                    try {
                        ended.complete(end(entry, attempt));
                    } catch (Exception error) {
                        ended.completeExceptionally(error);
                    }
                };
        if (entry.has("get")) {
            CompletableFuture.runAsync(end);
        } else if (takes > 0) {
            TIMES.schedule(end, takes, TimeUnit.MILLISECONDS);
        } else {
            end.run();
        }
        return ended;
    }

    private JsonObject begin() {
        JsonArray entries = step.getAsJsonArray("function");
        synchronized (starts) {
            int run = starts.size();
            starts.add(millis());
            return entries.get(Math.min(run, entries.size() - 1)).getAsJsonObject();
        }
    }

    private static String end(JsonObject entry, Attempt attempt) throws Exception {
        if (entry.has("get")) {
            return get(entry.get("get").getAsString(), attempt);
        }
        if (entry.has("ok")) {
            return entry.get("ok").getAsString();
        }
        if (entry.has("http")) {
            throw new HttpFailure(entry.get("http").getAsInt(), headers(entry.get("headers")));
        }
        if (entry.has("grpc")) {
            Metadata trailers = new Metadata();
            headers(entry.get("trailers"))
                    .forEach((name, values) -> values.forEach(value -> trailers.put(key(name), value)));
            Status status = Status.fromCodeValue(entry.get("grpc").getAsInt());
            throw new StatusRuntimeException(status.withDescription("scripted"), trailers);
        }
        throw new Exception(entry.get("error").getAsString());
    }

    private static String get(String url, Attempt attempt) throws Exception {
        String probe = attempt.isProbe() ? "1" : "0";
        URI uri = URI.create(url + "?attempt=" + attempt.number() + "&probe=" + probe);
        HttpResponse<Void> response =
                HTTP.send(HttpRequest.newBuilder(uri).build(), BodyHandlers.discarding());
        if (response.statusCode() / 100 != 2) {
            throw new HttpFailure(response.statusCode(), Map.of());
        }
        return "got";
    }

    private static Metadata.Key<String> key(String name) {
        return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
    }

    private static Map<String, List<String>> headers(JsonElement said) {
        Map<String, List<String>> headers = new HashMap<>();
        if (said != null && said.isJsonObject()) {
            said.getAsJsonObject()
                    .entrySet()
                    .forEach(e -> headers.put(e.getKey(), List.of(e.getValue().getAsString())));
        }
        return headers;
    }

    /** An error that carries a response. */
    private static final class HttpFailure extends Exception {
        private static final long serialVersionUID = 1;
        private final int status;
        private final transient Map<String, List<String>> headers;

        private HttpFailure(int status, Map<String, List<String>> headers) {
            super("http " + status);
            this.status = status;
            this.headers = headers;
        }
    }

    private static Outcome read(Object value, Throwable error) {
        return error instanceof HttpFailure failure
                ? Classifier.http(failure.status, failure.headers)
                : Classifier.standard().classify(value, error);
    }

    private static String text(Exception error) {
        return error instanceof StatusRuntimeException status
                ? "grpc " + status.getStatus().getCode().value()
                : error.getMessage();
    }

    private long millis() {
        return (System.nanoTime() - begun) / 1_000_000;
    }
}
