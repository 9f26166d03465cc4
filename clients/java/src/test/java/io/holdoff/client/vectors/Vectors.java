package io.holdoff.client.vectors;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.holdoff.client.Outcome;
import io.holdoff.client.OutcomeKind;
import io.holdoff.client.rules.Nanos;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.DynamicTest;

/** The vectors that all languages share: {@code tests/vectors/*.json}, {@code docs/vectors.md}. */
public final class Vectors {
    private Vectors() {}

    /** One test for each vector of a file, of which there must be at least so many. */
    public static List<DynamicTest> each(String file, int atLeast, Consumer<Fields> check)
            throws IOException {
        return some(file, any -> true, atLeast, check);
    }

    /** One test for each vector of some kind. */
    public static List<DynamicTest> some(
            String file, Predicate<JsonObject> which, int atLeast, Consumer<Fields> check)
            throws IOException {
        Path path = Path.of(System.getProperty("holdoff.root"), "tests/vectors", file + ".json");
        JsonElement json = JsonParser.parseString(Files.readString(path));
        List<DynamicTest> tests = new ArrayList<>();
        for (JsonElement vector : json.getAsJsonObject().getAsJsonArray("vectors")) {
            if (!which.test(vector.getAsJsonObject())) {
                continue;
            }
            String name = vector.getAsJsonObject().get("name").getAsString();
            tests.add(DynamicTest.dynamicTest(name, () -> run(vector, check)));
        }
        int found = tests.size();
        Assertions.assertTrue(found >= atLeast, () -> file + " has " + found);
        return tests;
    }

    private static void run(JsonElement vector, Consumer<Fields> check) {
        try (Fields fields = new Fields(vector)) {
            fields.text("name");
            check.accept(fields);
        }
    }

    public static OutcomeKind kind(Fields fields) {
        return OutcomeKind.valueOf(fields.text("kind").toUpperCase(Locale.ROOT));
    }

    public static Outcome outcome(Fields fields) {
        Outcome outcome = Outcome.of(kind(fields));
        Long pushback = fields.nanosOrNull("pushback_ns");
        if (pushback != null) {
            var wait = Nanos.toDuration(pushback);
            boolean restarts = fields.flag("restarts_backoff", false);
            outcome = restarts ? outcome.grpcPushback(wait) : outcome.pushback(wait);
        }
        outcome = fields.flag("do_not_retry", false) ? outcome.doNotRetry() : outcome;
        return fields.flag("retried_below", false) ? outcome.retriedBelow() : outcome;
    }

    /** As the vectors write spans. */
    public static String text(Long nanos) {
        return nanos == null ? null : Long.toUnsignedString(nanos);
    }
}
