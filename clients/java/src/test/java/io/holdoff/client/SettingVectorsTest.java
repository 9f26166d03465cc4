package io.holdoff.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import io.holdoff.client.link.Endpoint;
import io.holdoff.client.vectors.Fields;
import io.holdoff.client.vectors.Vectors;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** What a client takes as an endpoint and as a name, and what its HttpClient takes a request for. */
final class SettingVectorsTest {
    @TestFactory
    List<DynamicTest> settings() throws IOException {
        return Vectors.each(
                "settings",
                100,
                vector -> {
                    try (Fields expected = new Fields(vector.get("expected"))) {
                        check(vector, expected);
                    }
                });
    }

    private static void check(Fields vector, Fields expected) {
        if (vector.has("endpoint")) {
            Endpoint read = Endpoint.read(vector.text("endpoint")).orElse(null);
            Endpoint address = expected.within("address", SettingVectorsTest::address).orElse(null);
            assertEquals(address, read);
        } else if (vector.has("text")) {
            assertEquals(expected.flag("taken"), Question.isName(vector.text("text")));
        } else {
            HttpRequest request =
                    vector.within("request", SettingVectorsTest::request).orElseThrow();
            Question asked = HoldoffHttpClient.byHost(request);
            assertEquals(expected.text("dependency"), asked.dependency());
            String safety = asked.safety().name().toLowerCase(Locale.ROOT);
            assertEquals(expected.text("safety"), safety);
        }
    }

    private static Endpoint address(Fields said) {
        return new Endpoint(said.text("host"), (int) said.count("port"), said.flag("encrypted"));
    }

    private static HttpRequest request(Fields said) {
        HttpRequest.Builder request =
                HttpRequest.newBuilder(URI.create(said.text("url")))
                        .method(said.text("method"), BodyPublishers.noBody());
        for (JsonElement header : said.get("headers").getAsJsonArray()) {
            JsonArray pair = header.getAsJsonArray();
            request.header(pair.get(0).getAsString(), pair.get(1).getAsString());
        }
        return request.build();
    }
}
