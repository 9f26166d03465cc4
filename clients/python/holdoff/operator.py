"""The way to the operator's side of the service: state, overrides, policies, events.

    with holdoff.operator.connect("http://127.0.0.1:7460") as operator:
        request = operator.messages.ListDependenciesRequest()
        print(operator.service.ListDependencies(request))

Nothing here goes on without the service: an operator wants to know that it is away, by gRPC's own
errors.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Optional

import grpc

from ._channel import Endpoint, Tls, Token
from ._proto import operator_pb2
from ._proto.operator_pb2_grpc import OperatorServiceStub


class Operator:
    """`service` is the generated stub, `messages` the module of its messages."""

    messages: ModuleType = operator_pb2

    def __init__(self, endpoint: Endpoint) -> None:
        self._channel = endpoint.connect()
        intercepted = grpc.intercept_channel(self._channel, _Credentials(endpoint))
        self.service: Any = OperatorServiceStub(intercepted)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Operator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(endpoint: str, *, tls: Optional[Tls] = None, token: Optional[Token] = None) -> Operator:
    """`ValueError` where the endpoint is malformed. It connects with the first request."""
    return Operator(Endpoint.parse(endpoint, tls or Tls(), token))


class _Credentials(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(self._with(details), request)

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(self._with(details), request)

    def _with(self, details: Any) -> Any:
        metadata = [*(details.metadata or ()), *self._endpoint.metadata()]
        return details._replace(metadata=metadata)
