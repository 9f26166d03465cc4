"""What a client does, as metrics of OpenTelemetry.

    holdoff.opentelemetry.instrument(client)

One observable counter `holdoff.client.NAME` for each field of `Counters`; they are read when a
reader collects, so that no call pays for them. Needs `opentelemetry-api`.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Iterable
from typing import Callable, Optional

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from . import __version__
from ._counters import Counters
from ._front import Front

_ABOUT = {
    "asked": ("{question}", "Questions put to the connection"),
    "answered": ("{question}", "Questions that the service decided"),
    "no_decision": ("{question}", "Questions that the service did not decide"),
    "pushed_grants": ("{attempt}", "First attempts made on pushed state, without a question"),
    "pushed_denials": ("{attempt}", "First attempts refused on pushed state"),
    "local_grants": ("{attempt}", "Attempts granted without the service"),
    "local_denials": ("{attempt}", "Attempts denied without the service"),
    "reported": ("{outcome}", "Outcomes that the service took"),
    "reports_dropped": ("{outcome}", "Outcomes that were lost"),
    "connections": ("{connection}", "Connections opened"),
}


def instrument(client: Front, meter_provider: Optional[MeterProvider] = None) -> None:
    """Once for each client. It does not keep the client alive."""
    meter = metrics.get_meter("holdoff", __version__, meter_provider)
    known = weakref.ref(client)
    for field in dataclasses.fields(Counters):
        unit, about = _ABOUT[field.name]
        name = f"holdoff.client.{field.name}"
        meter.create_observable_counter(name, [_reading(known, field.name)], unit, about)


def _reading(
    known: weakref.ref[Front], name: str
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def read(_: CallbackOptions) -> Iterable[Observation]:
        client = known()
        return [] if client is None else [Observation(getattr(client.counters(), name))]

    return read
