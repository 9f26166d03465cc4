package io.holdoff.client.driver;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.holdoff.client.Holdoff;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * Plays the client's side of scenarios, as {@code docs/conformance.md} says: a line of JSON in, a
 * line of JSON out, each line in a thread of its own. With {@code --async} calls are made by
 * {@code callAsync}.
 */
public final class ConformanceDriver {
    private final PrintStream out;
    private final boolean isAsync;

    private ConformanceDriver(PrintStream out, boolean isAsync) {
        this.out = out;
        this.isAsync = isAsync;
    }

    public static void main(String[] arguments) throws IOException, InterruptedException {
        boolean isAsync = arguments.length > 0 && arguments[0].equals("--async");
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        // What is timed are scenarios, and not how long classes take to load.
        WarmUp.run();
        new ConformanceDriver(out, isAsync).play();
    }

    private void play() throws IOException, InterruptedException {
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonObject said = JsonParser.parseString(line).getAsJsonObject();
            threads.execute(() -> answer(said));
        }
        threads.shutdown();
        threads.awaitTermination(1, TimeUnit.MINUTES);
    }

    private void answer(JsonObject said) {
        JsonObject answer = new JsonObject();
        JsonElement id = said.get("id");
        answer.add("id", id);
        try (Holdoff holdoff = Clients.build(said)) {
            Play play = new Play(holdoff, said.get("control").getAsString(), isAsync);
            answer.add("results", play.run(said.getAsJsonObject("client")));
        } catch (Exception | AssertionError why) {
            why.printStackTrace();
            answer.addProperty("failed", why.toString());
        }
        synchronized (out) {
            out.println(answer);
            out.flush();
        }
    }
}
