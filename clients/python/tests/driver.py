"""The conformance driver of this client: `driver.py` drives `holdoff.Client`, `driver.py aio`
drives `holdoff.aio.Client`. The protocol is `docs/conformance.md`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http.client
import inspect
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, Callable, Optional
from urllib.parse import urlsplit

import grpc
import httpx

import holdoff
import holdoff.aio
import holdoff.httpx

Json = dict[str, Any]
THREADS = ThreadPoolExecutor(max_workers=1024)
GET_SECONDS = 5.0


class Boom(Exception):
    """The user's ordinary error."""


class HttpError(Exception):
    def __init__(self, status: int, headers: Json) -> None:
        super().__init__(f"http {status}")
        self.response = SimpleNamespace(status_code=status, headers=headers)


class GrpcError(Exception):
    def __init__(self, code: int, trailers: Json) -> None:
        super().__init__(f"grpc {code}")
        self._code = next(known for known in grpc.StatusCode if known.value[0] == code)
        self._trailers = tuple(trailers.items())

    def code(self) -> grpc.StatusCode:
        return self._code

    def trailing_metadata(self) -> Any:
        return self._trailers


class CutOff(TimeoutError):
    """The function has kept to the limit it was told."""


class Scripted:
    """The user's function: what it does at its first run, its second run, …"""

    def __init__(self, step: Json, is_aio: bool) -> None:
        self._entries = step["function"]
        self.is_aio = is_aio
        self.begun = time.monotonic()
        self.starts_ms: list[int] = []
        self.cancel = threading.Event()

    def entry(self) -> Json:
        self.starts_ms.append(int((time.monotonic() - self.begun) * 1000))
        entry: Json = self._entries[min(len(self.starts_ms), len(self._entries)) - 1]
        return entry

    def blocking(self, attempt: holdoff.Attempt) -> Any:
        entry = self.entry()
        if "get" in entry:
            return got(entry["get"], attempt)
        takes, limit = entry.get("takes_ms", 0) / 1000, attempt.limit
        is_cut_off = limit is not None and limit < takes
        if self.cancel.wait(limit if is_cut_off else takes):
            raise holdoff.Cancelled
        if is_cut_off:
            raise CutOff
        return end_of(entry)

    async def awaited(self, attempt: holdoff.Attempt) -> Any:
        entry = self.entry()
        if "get" in entry:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(THREADS, got, entry["get"], attempt)
        if entry.get("takes_ms"):
            await asyncio.sleep(entry["takes_ms"] / 1000)
        return end_of(entry)


def got(address: str, attempt: holdoff.Attempt) -> str:
    """Really calls."""
    url = urlsplit(address)
    path = f"{url.path}?attempt={attempt.number}&probe={int(attempt.is_probe)}"
    try:
        timeout = GET_SECONDS if attempt.limit is None else max(attempt.limit, 0.001)
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=timeout)
        with contextlib.closing(connection):
            connection.request("GET", path)
            response = connection.getresponse()
            response.read()
    except TimeoutError:
        raise CutOff from None
    except (OSError, http.client.HTTPException) as error:
        raise Boom(str(error)) from None
    if 200 <= response.status < 300:
        return "got"
    raise HttpError(response.status, dict(response.getheaders()))


def end_of(entry: Json) -> Any:
    if "ok" in entry:
        return entry["ok"]
    if "http" in entry:
        raise HttpError(entry["http"], entry.get("headers", {}))
    if "grpc" in entry:
        raise GrpcError(entry["grpc"], entry.get("trailers", {}))
    raise Boom(entry["error"])


class Run:
    """One scenario. Blocking methods of the client run in threads of their own."""

    def __init__(self, line: Json, is_aio: bool) -> None:
        self._line = line
        self._is_aio = is_aio
        self._client = client_of(line, holdoff.aio.Client if is_aio else holdoff.Client)
        self._permits: dict[str, Any] = {}
        self._results: list[Json] = []

    async def __call__(self) -> list[Json]:
        for step in self._line["client"]["steps"]:
            made = await getattr(self, "do_" + step["do"])(step)
            results = made if isinstance(made, list) else [made]
            self._results += [r for r in results if r is not None and r.get("name")]
        self._permits.clear()
        await self._do(self._client.flush, 0.3)
        return self._results

    async def close(self) -> None:
        await self._do(self._client.close)

    async def _do(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._is_aio:
            result = function(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result
        bound = functools.partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(THREADS, bound)

    async def do_connect(self, step: Json) -> Json:
        done = await self._do(self._client.connect, step["within_ms"] / 1000)
        return {"name": step.get("name"), "done": done}

    async def do_flush(self, step: Json) -> Json:
        done = await self._do(self._client.flush, step["within_ms"] / 1000)
        return {"name": step.get("name"), "done": done}

    async def do_wait(self, step: Json) -> None:
        await asyncio.sleep(step["ms"] / 1000)

    async def do_server(self, step: Json) -> None:
        host, port = self._line["control"].rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(step["action"].encode() + b"\n")
        assert (await reader.readline()).strip() == b"done"
        writer.close()

    async def do_parallel(self, step: Json) -> list[Json]:
        return list(await asyncio.gather(*(self.do_call(call) for call in step["calls"])))

    async def do_call(self, step: Json) -> Json:
        result: Json = {}
        runs, longest = 0, 0
        for _ in range(step.get("times", 1)):
            result = await self._call_once(step)
            runs, longest = runs + result["runs"], max(longest, result["total_ms"])
        return {**result, "runs": runs, "total_ms": longest}

    async def _call_once(self, step: Json) -> Json:
        scripted, settings = Scripted(step, self._is_aio), settings_of(step)
        if "on_denied" in step:
            settings["on_denied"] = step["on_denied"]
        if "fallback" in step:
            settings["fallback"] = lambda why, error: step["fallback"]
        function = scripted.awaited if self._is_aio else scripted.blocking
        if not self._is_aio:
            settings["cancel"] = scripted.cancel
        call = self._do(self._client.call, step["dependency"], function, **settings)
        result: Json = {"value": None, "error": None, "reason": None, "by": None}
        result["retry_after_ms"] = None
        try:
            result["value"] = await cancelling(call, scripted, step.get("cancel_after_ms"))
        except (asyncio.CancelledError, holdoff.Cancelled):
            result.update(reason="CANCELLED", by="CALLER")
        except ValueError as error:
            if not str(error).startswith("dependency "):
                raise
            result.update(reason="BAD_NAME", by="CALLER")
        except Exception as error:
            why = holdoff.stopped(error)
            if why is None:
                raise
            result.update(reason_of(why))
            if isinstance(error, (Boom, HttpError, GrpcError)):
                result["error"] = str(error)
        total = int((time.monotonic() - scripted.begun) * 1000)
        starts = scripted.starts_ms
        return {
            "name": step.get("name"),
            "runs": len(starts),
            "starts_ms": starts,
            "total_ms": total,
            **result,
        }

    async def do_request(self, step: Json) -> Json:
        """Through the adapter for httpx. Nothing is sent: the scenario denies it."""
        request = httpx.Request(step["method"], step["url"], headers=step.get("headers"))
        sends = httpx.MockTransport(lambda request: httpx.Response(500))
        result: Json = {"name": step["name"], "value": None, "error": None, "runs": 0}
        try:
            if self._is_aio:
                guarded = holdoff.httpx.AsyncHoldoffTransport(self._client, sends)
                await guarded.handle_async_request(request)
            else:
                adapter = holdoff.httpx.HoldoffTransport(self._client, sends)
                await self._do(adapter.handle_request, request)
        except holdoff.Denied as denied:
            return {**result, **reason_of(denied)}
        raise AssertionError("it was sent")

    async def do_repeat(self, step: Json) -> Json:
        counts = {"calls": 0, "succeeded": 0, "refused": 0}
        until = time.monotonic() + step["for_ms"] / 1000
        while time.monotonic() < until:
            ended = await self._call_once(step)
            counts["calls"] += 1
            counts["succeeded"] += ended["reason"] is None
            counts["refused"] += ended["runs"] == 0
            await asyncio.sleep(step["every_ms"] / 1000)
        return {"name": step.get("name"), **counts}

    async def do_acquire(self, step: Json) -> Json:
        return await self._granted(
            step, lambda: self._do(self._client.acquire, step["dependency"], **settings_of(step))
        )

    async def do_retry(self, step: Json) -> Json:
        before = self._permits.pop(step["permit"])
        return await self._granted(step, lambda: self._do(before.retry, outcome_of(step)))

    async def _granted(self, step: Json, ask: Callable[[], Any]) -> Json:
        name = step["name"]
        try:
            permit = await ask()
            await self._do(permit.wait)
        except holdoff.Denied as denied:
            return {"name": name, "granted": False, **reason_of(denied)}
        self._permits[name] = permit
        return {
            "name": name,
            "granted": True,
            "attempt": permit.attempt,
            "probe": permit.is_probe,
            "local": permit.is_local,
            "reason": None,
            "by": None,
            "retry_after_ms": None,
        }

    async def do_report(self, step: Json) -> None:
        self._permits.pop(step["permit"]).report(outcome_of(step))

    async def do_drop(self, step: Json) -> None:
        del self._permits[step["permit"]]

    async def do_until_fleet(self, step: Json) -> Json:
        begun = time.monotonic()
        while time.monotonic() - begun < step["within_ms"] / 1000:
            was_local: list[bool] = []

            def note(attempt: holdoff.Attempt, seen: list[bool] = was_local) -> None:
                seen.append(attempt.is_local)

            async def note_awaited(attempt: holdoff.Attempt, seen: list[bool] = was_local) -> None:
                seen.append(attempt.is_local)

            try:
                function: Any = note_awaited if self._is_aio else note
                await self._do(self._client.call, step["dependency"], function)
            except holdoff.Denied:
                pass
            if was_local == [False]:
                after = int((time.monotonic() - begun) * 1000)
                return {"name": step["name"], "back": True, "after_ms": after}
            await asyncio.sleep(step["every_ms"] / 1000)
        return {"name": step["name"], "back": False, "after_ms": None}


async def cancelling(call: Any, scripted: Scripted, after_ms: Optional[int]) -> Any:
    """Gives the call up after so long: by the event that threads look at, and for tasks by
    cancelling theirs.
    """
    task = asyncio.ensure_future(call)
    if after_ms is not None:
        done, _ = await asyncio.wait({task}, timeout=after_ms / 1000)
        if not done:
            scripted.cancel.set()
            if scripted.is_aio:
                task.cancel()
    return await task


def client_of(line: Json, kind: Any) -> Any:
    options = dict(line["client"].get("options", {}))
    if options.pop("mode", "fleet") == "testing":
        return kind.testing()
    settings: Json = {
        "service": options.pop("service", "checkout"),
        "instance": options.pop("instance", "test-1"),
        "namespace": options.pop("namespace", ""),
        "timeout": options.pop("timeout_ms", 50) / 1000,
        "follow": options.pop("follow", []),
        "on_no_decision": options.pop("on_no_decision", "local"),
    }
    if "local_policy" in options:
        settings["local_policy"] = local_policy(options.pop("local_policy"))
    assert not options, f"unknown options {sorted(options)}"
    return kind([f"http://{endpoint}" for endpoint in line["endpoints"]], **settings)


def local_policy(said: Json) -> holdoff.Policy:
    fields: Json = {}
    for name, value in said.items():
        if name.endswith("_ms"):
            fields[name[:-3]] = value / 1000
        elif name in ("strategy", "jitter"):
            fields[name] = str(value).rsplit("_", 1)[-1].lower()
        else:
            fields[name] = value
    return holdoff.local_policy(**fields)


def settings_of(step: Json) -> Json:
    settings: Json = {"idempotent": step.get("idempotent", False)}
    for name in ("max_attempts", "priority", "cost", "call_id"):
        if name in step:
            settings[name] = step[name]
    for name in ("deadline", "attempt_timeout"):
        if f"{name}_ms" in step:
            settings[name] = step[f"{name}_ms"] / 1000
    return settings


def outcome_of(step: Json) -> holdoff.Outcome:
    said = step["outcome"]
    wait = said.get("pushback_ms")
    return holdoff.Outcome(
        holdoff.OutcomeKind[said["kind"].upper()],
        pushback=None if wait is None else wait / 1000,
        do_not_retry=said.get("do_not_retry", False),
        retried_below=said.get("retried_below", False),
        status_code=said.get("status_code", 0),
    )


def reason_of(denied: holdoff.Denied) -> Json:
    wait = denied.retry_after
    return {
        "reason": denied.reason.name,
        "by": denied.by.name,
        "retry_after_ms": None if wait is None else int(wait * 1000),
    }


async def answer(text: str, is_aio: bool, out: threading.Lock) -> None:
    line = json.loads(text)
    run = Run(line, is_aio)
    try:
        reply = {"id": line["id"], "results": await run()}
    except Exception as error:
        reply = {"id": line["id"], "failed": f"{type(error).__name__}: {error}"}
    with out:
        print(json.dumps(reply), flush=True)
    await run.close()


async def main(is_aio: bool) -> None:
    loop, out = asyncio.get_running_loop(), threading.Lock()
    under_way: set[asyncio.Task[None]] = set()
    while text := await loop.run_in_executor(THREADS, sys.stdin.readline):
        task = asyncio.ensure_future(answer(text, is_aio, out))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    if under_way:
        await asyncio.wait(under_way)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] == ["aio"]))
