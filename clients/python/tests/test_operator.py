"""An operator's order, and what clients make of it."""

from __future__ import annotations

import time

import grpc
import pytest
from conftest import Both
from scripted import nowhere

import holdoff
import holdoff.operator
from holdoff import Reason


def test_a_forced_open_breaker_refuses_calls_without_a_hop(both: Both, service: str) -> None:
    client = both.client(service, follow=["payments"], timeout=1.0)
    assert both.do(client.connect, 10.0)
    with holdoff.operator.connect(service, token="whoever") as operator:
        order = operator.messages.SetOverrideRequest(
            dependency="payments", owner="me", reason="a drill"
        )
        order.kind = operator.messages.OVERRIDE_KIND_FORCE_OPEN
        operator.service.SetOverride(order)
        request = operator.messages.ListDependenciesRequest()
        (listed,) = operator.service.ListDependencies(request).dependencies
        assert listed.name == "payments"
    by = time.monotonic() + 3.0
    while True:
        try:
            both.call(client, "payments", lambda _: 1)
        except holdoff.Denied as why:
            assert why.reason is Reason.FORCED_OPEN
            if client.counters().pushed_denials:
                break
        assert time.monotonic() < by, "the order was not pushed"


def test_an_operator_learns_that_the_service_is_away() -> None:
    with holdoff.operator.connect(nowhere()) as operator, pytest.raises(grpc.RpcError) as away:
        operator.service.ListDependencies(operator.messages.ListDependenciesRequest())
    assert away.value.code() is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(ValueError, match="endpoint"):
        holdoff.operator.connect("ftp://x")
