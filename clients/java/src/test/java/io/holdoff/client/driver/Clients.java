package io.holdoff.client.driver;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.holdoff.client.Holdoff;
import io.holdoff.client.OnNoDecision;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** The client of a scenario. */
final class Clients {
    private Clients() {}

    static Holdoff build(JsonObject line) {
        JsonObject options = line.getAsJsonObject("client").getAsJsonObject("options");
        if (text(options, "mode", "fleet").equals("testing")) {
            return Holdoff.testing();
        }
        String[] endpoints =
                names(line.get("endpoints")).stream()
                        .map(endpoint -> "http://" + endpoint)
                        .toArray(String[]::new);
        String then = text(options, "on_no_decision", "local");
        return Holdoff.builder()
                .endpoints(endpoints)
                .service(text(options, "service", "checkout"))
                .instance(text(options, "instance", "test-1"))
                .namespace(text(options, "namespace", ""))
                .timeout(Duration.ofMillis(number(options, "timeout_ms", 50)))
                .follow(names(options.get("follow")))
                .onNoDecision(OnNoDecision.valueOf(then.toUpperCase(Locale.ROOT)))
                .build();
    }

    static String text(JsonObject json, String name, String otherwise) {
        return has(json, name) ? json.get(name).getAsString() : otherwise;
    }

    static long number(JsonObject json, String name, long otherwise) {
        return has(json, name) ? json.get(name).getAsLong() : otherwise;
    }

    static boolean flag(JsonObject json, String name) {
        return has(json, name) && json.get(name).getAsBoolean();
    }

    static boolean has(JsonObject json, String name) {
        return json.has(name) && !json.get(name).isJsonNull();
    }

    static List<String> names(JsonElement list) {
        JsonArray array = list == null ? new JsonArray() : list.getAsJsonArray();
        List<String> names = new ArrayList<>();
        array.forEach(name -> names.add(name.getAsString()));
        return names;
    }
}
