package io.holdoff.client;

import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.metrics.Meter;
import java.util.ArrayList;
import java.util.List;
import java.util.function.ToLongFunction;

/**
 * Shows a client's {@link Counters} to OpenTelemetry, for programs that have its API on their
 * class path. Names: {@code holdoff.client.asked}, {@code holdoff.client.answered}, and so on.
 */
public final class HoldoffMetrics implements AutoCloseable {
    private final List<AutoCloseable> instruments = new ArrayList<>();

    private HoldoffMetrics() {}

    /**
     * Registers the counters. They are read when they are collected, and cost calls nothing.
     *
     * @param telemetry where
     * @param holdoff whose
     * @return closed, it takes them back
     */
    public static HoldoffMetrics register(OpenTelemetry telemetry, Holdoff holdoff) {
        Meter meter = telemetry.getMeter("io.holdoff.client");
        HoldoffMetrics metrics = new HoldoffMetrics();
        metrics.add(meter, holdoff, "asked", "{question}", Counters::asked);
        metrics.add(meter, holdoff, "answered", "{question}", Counters::answered);
        metrics.add(meter, holdoff, "no_decision", "{question}", Counters::noDecision);
        metrics.add(meter, holdoff, "pushed_grants", "{attempt}", Counters::pushedGrants);
        metrics.add(meter, holdoff, "pushed_denials", "{attempt}", Counters::pushedDenials);
        metrics.add(meter, holdoff, "local_grants", "{attempt}", Counters::localGrants);
        metrics.add(meter, holdoff, "local_denials", "{attempt}", Counters::localDenials);
        metrics.add(meter, holdoff, "reported", "{report}", Counters::reported);
        metrics.add(meter, holdoff, "reports_dropped", "{report}", Counters::reportsDropped);
        metrics.add(meter, holdoff, "connections", "{connection}", Counters::connections);
        return metrics;
    }

    private void add(
            Meter meter, Holdoff holdoff, String name, String unit, ToLongFunction<Counters> read) {
        instruments.add(
                meter.counterBuilder("holdoff.client." + name)
                        .setUnit(unit)
                        .buildWithCallback(
                                measured -> measured.record(read.applyAsLong(holdoff.counters()))));
    }

    /** Takes them back. */
    @Override
    public void close() {
        for (AutoCloseable instrument : instruments) {
            try {
                instrument.close();
            } catch (Exception impossible) {
                throw new IllegalStateException(impossible);
            }
        }
    }
}
