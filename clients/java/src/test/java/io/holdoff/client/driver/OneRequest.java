package io.holdoff.client.driver;

import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.holdoff.client.Holdoff;
import io.holdoff.client.HoldoffHttpClient;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.concurrent.ExecutionException;

/** A request through the guarded {@code HttpClient}. Scenarios deny it: nothing is sent. */
final class OneRequest {
    private final Holdoff holdoff;
    private final JsonObject step;
    private final boolean isAsync;

    OneRequest(Holdoff holdoff, JsonObject step, boolean isAsync) {
        this.holdoff = holdoff;
        this.step = step;
        this.isAsync = isAsync;
    }

    JsonObject make() throws InterruptedException {
        JsonObject shown = new JsonObject();
        shown.add("value", JsonNull.INSTANCE);
        shown.add("error", JsonNull.INSTANCE);
        shown.addProperty("runs", 0);
        try {
            HttpClient http = HoldoffHttpClient.byHost(holdoff, HttpClient.newHttpClient());
            int status =
                    isAsync
                            ? http.sendAsync(request(), BodyHandlers.discarding()).get().statusCode()
                            : http.send(request(), BodyHandlers.discarding()).statusCode();
            shown.addProperty("value", status);
            shown.addProperty("runs", 1);
        } catch (IOException | ExecutionException denied) {
            Play.show(shown, Holdoff.whyStopped(denied).orElseThrow());
        }
        return shown;
    }

    private HttpRequest request() {
        HttpRequest.Builder request =
                HttpRequest.newBuilder(URI.create(step.get("url").getAsString()))
                        .method(step.get("method").getAsString(), BodyPublishers.noBody());
        if (Clients.has(step, "headers")) {
            step.getAsJsonObject("headers")
                    .entrySet()
                    .forEach(header -> request.header(header.getKey(), header.getValue().getAsString()));
        }
        return request.build();
    }
}
