package io.holdoff.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.metrics.SdkMeterProvider;
import io.opentelemetry.sdk.metrics.data.MetricData;
import io.opentelemetry.sdk.testing.exporter.InMemoryMetricReader;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** What OpenTelemetry sees. */
final class MetricsTest {
    @Test
    void eachCounterIsShownAndClosedItIsGone() {
        InMemoryMetricReader reader = InMemoryMetricReader.create();
        SdkMeterProvider meters = SdkMeterProvider.builder().registerMetricReader(reader).build();
        OpenTelemetrySdk telemetry = OpenTelemetrySdk.builder().setMeterProvider(meters).build();
        try (telemetry;
                Holdoff holdoff = Holdoff.testing()) {
            HoldoffMetrics metrics = HoldoffMetrics.register(telemetry, holdoff);
            holdoff.call("payments", attempt -> "done");
            Map<String, Long> seen = new HashMap<>();
            for (MetricData each : reader.collectAllMetrics()) {
                each.getLongSumData().getPoints().forEach(p -> seen.put(each.getName(), p.getValue()));
            }
            assertEquals(10, seen.size());
            assertEquals(1, seen.get("holdoff.client.local_grants"));
            metrics.close();
            assertTrue(reader.collectAllMetrics().isEmpty());
        }
    }
}
