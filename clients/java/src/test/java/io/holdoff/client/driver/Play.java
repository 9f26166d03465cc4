package io.holdoff.client.driver;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.holdoff.client.Denied;
import io.holdoff.client.DeniedException;
import io.holdoff.client.Guard;
import io.holdoff.client.Holdoff;
import io.holdoff.client.OnDenied;
import io.holdoff.client.Outcome;
import io.holdoff.client.OutcomeKind;
import io.holdoff.client.Permit;
import io.holdoff.client.Priority;
import io.holdoff.client.Question;
import java.io.IOException;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;

/** One scenario. */
final class Play {
    private static final Duration CLOSE = Duration.ofMillis(300);

    private final Holdoff holdoff;
    private final String control;
    private final boolean isAsync;
    private final Map<String, Permit> permits = new HashMap<>();
    private final JsonArray results = new JsonArray();

    Play(Holdoff holdoff, String control, boolean isAsync) {
        this.holdoff = holdoff;
        this.control = control;
        this.isAsync = isAsync;
    }

    JsonArray run(JsonObject client) throws Exception {
        for (JsonElement step : client.getAsJsonArray("steps")) {
            step(step.getAsJsonObject());
        }
        permits.values().forEach(Permit::close);
        holdoff.flush(CLOSE);
        return results;
    }

    private void step(JsonObject step) throws Exception {
        Duration within = Duration.ofMillis(Clients.number(step, "within_ms", 1000));
        switch (step.get("do").getAsString()) {
            case "connect" -> result(step, done(holdoff.connect(within)));
            case "flush" -> result(step, done(holdoff.flush(within)));
            case "wait" -> Thread.sleep(step.get("ms").getAsLong());
            case "server" -> askServer(step.get("action").getAsString());
            case "call" -> result(step, calls(step));
            case "request" -> result(step, new OneRequest(holdoff, step, isAsync).make());
            case "parallel" -> parallel(step.getAsJsonArray("calls"));
            case "acquire" -> result(step, keep(step, () -> holdoff.acquire(question(step))));
            case "retry" -> {
                Permit permit = permit(step);
                Outcome outcome = outcome(step.getAsJsonObject("outcome"));
                result(step, keep(step, () -> permit.retry(outcome)));
            }
            case "report" -> permit(step).report(outcome(step.getAsJsonObject("outcome")));
            case "drop" -> permit(step).close();
            case "repeat" -> result(step, repeat(step));
            case "until_fleet" -> result(step, untilFleet(step, within));
            default -> throw new IllegalArgumentException("no step " + step);
        }
    }

    private void result(JsonObject step, JsonObject result) {
        if (Clients.has(step, "name")) {
            result.add("name", step.get("name"));
            results.add(result);
        }
    }

    private static JsonObject done(boolean isDone) {
        JsonObject shown = new JsonObject();
        shown.addProperty("done", isDone);
        return shown;
    }

    private void askServer(String action) throws IOException {
        URI address = URI.create("tcp://" + control);
        try (Socket socket = new Socket(address.getHost(), address.getPort())) {
            socket.getOutputStream().write((action + "\n").getBytes(StandardCharsets.UTF_8));
            byte[] said = socket.getInputStream().readAllBytes();
            String answer = new String(said, StandardCharsets.UTF_8).strip();
            if (!answer.equals("done")) {
                throw new IOException("the server said " + answer);
            }
        }
    }

    private void parallel(JsonArray calls) throws InterruptedException, ExecutionException {
        ExecutorService threads = Executors.newFixedThreadPool(calls.size());
        try {
            List<Future<JsonObject>> running = new ArrayList<>();
            for (JsonElement call : calls) {
                running.add(threads.submit(() -> calls(call.getAsJsonObject())));
            }
            for (int at = 0; at < calls.size(); at++) {
                JsonObject shown = running.get(at).get();
                shown.add("name", calls.get(at).getAsJsonObject().get("name"));
                results.add(shown);
            }
        } finally {
            threads.shutdownNow();
        }
    }

    /** One call after the other. */
    private JsonObject calls(JsonObject step) throws Exception {
        long times = Clients.number(step, "times", 1);
        long runs = 0;
        long longest = 0;
        JsonObject last = new JsonObject();
        for (long time = 0; time < times; time++) {
            last = oneCall(step);
            runs += last.get("runs").getAsLong();
            longest = Math.max(longest, last.get("total_ms").getAsLong());
        }
        last.addProperty("runs", runs);
        last.addProperty("total_ms", longest);
        return last;
    }

    private JsonObject oneCall(JsonObject step) throws InterruptedException {
        try {
            return new OneCall(guard(step), step, isAsync).make();
        } catch (IllegalArgumentException badName) {
            JsonObject shown = new JsonObject();
            shown.add("value", JsonNull.INSTANCE);
            shown.add("error", JsonNull.INSTANCE);
            shown.addProperty("reason", "BAD_NAME");
            shown.addProperty("by", "CALLER");
            shown.add("retry_after_ms", JsonNull.INSTANCE);
            shown.addProperty("runs", 0);
            shown.addProperty("total_ms", 0);
            return shown;
        }
    }

    /** Calls, with so much between them, for so long. */
    private JsonObject repeat(JsonObject step) throws InterruptedException {
        long until = System.nanoTime() + millis(step, "for_ms").toNanos();
        int calls = 0;
        int succeeded = 0;
        int refused = 0;
        while (System.nanoTime() - until < 0) {
            JsonObject call = new OneCall(guard(step), step, isAsync).make();
            calls++;
            succeeded += call.get("value").isJsonNull() ? 0 : 1;
            refused += call.get("runs").getAsInt() == 0 ? 1 : 0;
            Thread.sleep(step.get("every_ms").getAsLong());
        }
        JsonObject shown = new JsonObject();
        shown.addProperty("calls", calls);
        shown.addProperty("succeeded", succeeded);
        shown.addProperty("refused", refused);
        return shown;
    }

    private Guard guard(JsonObject step) {
        String onDenied = Clients.text(step, "on_denied", "fail").toUpperCase(Locale.ROOT);
        return holdoff.guard(question(step)).onDenied(OnDenied.valueOf(onDenied));
    }

    private static Question question(JsonObject step) {
        Question question = Question.of(step.get("dependency").getAsString());
        if (Clients.flag(step, "idempotent")) {
            question = question.idempotent();
        }
        if (Clients.has(step, "deadline_ms")) {
            question = question.deadline(millis(step, "deadline_ms"));
        }
        if (Clients.has(step, "max_attempts")) {
            question = question.maxAttempts(step.get("max_attempts").getAsInt());
        }
        if (Clients.has(step, "attempt_timeout_ms")) {
            question = question.attemptTimeout(millis(step, "attempt_timeout_ms"));
        }
        if (Clients.has(step, "cost")) {
            question = question.cost(step.get("cost").getAsInt());
        }
        if (Clients.has(step, "call_id")) {
            question = question.callId(step.get("call_id").getAsString());
        }
        String priority = Clients.text(step, "priority", "normal").toUpperCase(Locale.ROOT);
        return question.priority(Priority.valueOf(priority));
    }

    private static Duration millis(JsonObject step, String name) {
        return Duration.ofMillis(step.get(name).getAsLong());
    }

    private interface Asked {
        Permit get() throws InterruptedException;
    }

    private JsonObject keep(JsonObject step, Asked asked) throws InterruptedException {
        JsonObject shown = new JsonObject();
        try {
            Permit permit = isAsync ? asked.get().awaitAsync().get() : asked.get().await();
            shown.addProperty("granted", true);
            shown.addProperty("attempt", permit.attempt());
            shown.addProperty("probe", permit.isProbe());
            shown.addProperty("local", permit.isLocal());
            permits.put(step.get("name").getAsString(), permit);
        } catch (DeniedException denied) {
            stopped(shown, denied.denied());
        } catch (ExecutionException denied) {
            stopped(shown, Holdoff.whyStopped(denied).orElseThrow());
        }
        return shown;
    }

    private static void stopped(JsonObject shown, Denied denied) {
        shown.addProperty("granted", false);
        show(shown, denied);
    }

    static void show(JsonObject shown, Denied denied) {
        shown.addProperty("reason", denied.reason().name());
        shown.addProperty("by", denied.by().name());
        shown.add("retry_after_ms", JsonNull.INSTANCE);
        denied.retryAfter().ifPresent(wait -> shown.addProperty("retry_after_ms", wait.toMillis()));
    }

    private Permit permit(JsonObject step) {
        Permit permit = permits.remove(step.get("permit").getAsString());
        if (permit == null) {
            throw new IllegalArgumentException("no such permit: " + step);
        }
        return permit;
    }

    private JsonObject untilFleet(JsonObject step, Duration within) throws InterruptedException {
        long begun = System.nanoTime();
        String dependency = step.get("dependency").getAsString();
        boolean isBack = false;
        while (!isBack && System.nanoTime() - begun < within.toNanos()) {
            AtomicBoolean isLocal = new AtomicBoolean(true);
            try {
                holdoff.call(
                        dependency,
                        attempt -> {
                            isLocal.set(attempt.isLocal());
                            return null;
                        });
                isBack = !isLocal.get();
            } catch (DeniedException denied) {
                isBack = false;
            }
            if (!isBack) {
                Thread.sleep(Clients.number(step, "every_ms", 20));
            }
        }
        JsonObject shown = new JsonObject();
        shown.addProperty("back", isBack);
        shown.addProperty("after_ms", (System.nanoTime() - begun) / 1_000_000);
        return shown;
    }

    private static Outcome outcome(JsonObject said) {
        String kind = said.get("kind").getAsString().toUpperCase(Locale.ROOT);
        Outcome outcome = Outcome.of(OutcomeKind.valueOf(kind));
        if (Clients.has(said, "pushback_ms")) {
            outcome = outcome.pushback(millis(said, "pushback_ms"));
        }
        if (Clients.flag(said, "do_not_retry")) {
            outcome = outcome.doNotRetry();
        }
        if (Clients.flag(said, "retried_below")) {
            outcome = outcome.retriedBelow();
        }
        return outcome.statusCode((int) Clients.number(said, "status_code", 0));
    }
}
