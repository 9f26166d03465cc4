"""Counters as metrics of OpenTelemetry."""

from __future__ import annotations

import dataclasses

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import holdoff
import holdoff.opentelemetry


def test_each_counter_is_a_metric() -> None:
    reader, client = InMemoryMetricReader(), holdoff.Client.testing()
    holdoff.opentelemetry.instrument(client, MeterProvider([reader]))
    for _ in range(3):
        client.call("payments", lambda attempt: None)
    data = reader.get_metrics_data()
    assert data is not None
    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    values = {metric.name: metric.data.data_points[0].value for metric in metrics}  # type: ignore[union-attr]
    names = {f"holdoff.client.{field.name}" for field in dataclasses.fields(holdoff.Counters)}
    assert set(values) == names
    assert values["holdoff.client.local_grants"] == 3
