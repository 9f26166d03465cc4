"""A service that answers as a test says, over real sockets."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any, Callable, Optional

import grpc

from holdoff._proto import coordinator_pb2 as pb
from holdoff._proto import coordinator_pb2_grpc as stubs

Answer = Callable[[Any], Any]


def granting(request: Any) -> Any:
    response = pb.AcquireResponse(state="BREAKER_STATE_CLOSED", epoch=1)
    response.grant.permit = b"permit"
    response.grant.delay.SetInParent()
    response.grant.permit_ttl.seconds = 60
    return response


class Scripted(stubs.CoordinatorServiceServicer):
    """`answer` makes an `AcquireResponse` of a request; `updates` are pushed at the beginning."""

    def __init__(
        self,
        answer: Answer = granting,
        updates: tuple[Any, ...] = (),
        plan: Optional[Answer] = None,
        token: Optional[str] = None,
    ) -> None:
        self.answer = answer
        self.updates = updates
        self.plan = plan
        self.token = token
        self.has_sessions = True
        self.asked: list[Any] = []
        self.hellos: list[Any] = []
        self.entries: list[Any] = []
        self.has_entries = threading.Event()
        self._lock = threading.Lock()

    def Session(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        self._let_in(context)
        if not self.has_sessions:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "by single requests")
        context.send_initial_metadata(())
        out: queue.Queue[Any] = queue.Queue()
        context.add_callback(lambda: out.put(None))
        threading.Thread(target=self._read, args=(requests, out), daemon=True).start()
        for update in self.updates:
            yield pb.SessionResponse(update=update)
        while (message := out.get()) is not None:
            yield message

    def Acquire(self, request: Any, context: Any) -> Any:
        self._let_in(context)
        return self._answer(request)

    def PlanCheck(self, request: Any, context: Any) -> Any:
        if self.plan is None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no check here")
        return self.plan(request) if self.plan else None

    def _read(self, requests: Iterator[Any], out: queue.Queue[Any]) -> None:
        with contextlib.suppress(Exception):
            for message in requests:
                response = pb.SessionResponse(id=message.id)
                what = message.WhichOneof("message")
                if what == "hello":
                    self.hellos.append(message.hello)
                elif what == "acquire":
                    for request in message.acquire.requests:
                        answer = self._answer(request)
                        response.acquired.items.add().response.CopyFrom(answer)
                    out.put(response)
                elif what == "report":
                    with self._lock:
                        self.entries.extend(message.report.entries)
                    self.has_entries.set()
                    for _ in message.report.entries:
                        response.reported.results.add(applied=True)
                    out.put(response)
        out.put(None)

    def _answer(self, request: Any) -> Any:
        with self._lock:
            self.asked.append(request)
        return self.answer(request)

    def _let_in(self, context: Any) -> None:
        said = dict(context.invocation_metadata()).get("authorization")
        if self.token is not None and said != f"Bearer {self.token}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you?")


@contextlib.contextmanager
def serving(scripted: Scripted, credentials: Any = None, port: int = 0) -> Iterator[str]:
    """Its endpoint; on any free port unless said."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
    stubs.add_CoordinatorServiceServicer_to_server(scripted, server)  # type: ignore[no-untyped-call]
    if credentials is None:
        endpoint = f"http://127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{port}')}"
    else:
        port = server.add_secure_port("127.0.0.1:0", credentials)
        endpoint = f"https://127.0.0.1:{port}"
    server.start()
    try:
        yield endpoint
    finally:
        server.stop(0)


def nowhere() -> str:
    """An endpoint at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def update(dependency: str, first_attempts: str = "FIRST_ATTEMPTS_GO", **fields: Any) -> Any:
    said = {"state": "BREAKER_STATE_CLOSED", "epoch": 1, **fields}
    message = pb.Update(dependency=dependency, first_attempts=first_attempts, **said)
    if not message.HasField("valid_for"):
        message.valid_for.seconds = 15
    return message
