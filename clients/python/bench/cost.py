"""What a guarded call costs on the success path: closed, pushed GO, no hop.

    python bench/cost.py [CALLS]

One scripted service in another process pushes GO; beside it the libraries that people use, in the
same run. Each figure is the median of nine rounds.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import pathlib
import statistics
import sys
import time
from collections.abc import Awaitable
from typing import Any, Callable

import stamina
import tenacity

import holdoff
import holdoff.aio

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))

ROUNDS = 9


def serve(told: Any) -> None:
    from scripted import Scripted, serving, update

    go = update("payments")
    go.valid_for.seconds = 300
    with serving(Scripted(updates=(go,))) as endpoint:
        told.send(endpoint)
        told.recv()


def microseconds(run: Callable[[int], None], calls: int) -> float:
    run(calls // 10)
    rounds = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        run(calls)
        rounds.append((time.perf_counter() - begun) / calls * 1e6)
    return statistics.median(rounds)


def work(attempt: Any = None) -> int:
    return 1


async def work_awaited(attempt: Any = None) -> int:
    return 1


def of_threads(endpoint: str, calls: int) -> dict[str, float]:
    client = holdoff.Client([endpoint], service="bench", follow=["payments"])
    assert client.connect(5.0)
    guarded = client.guarded("payments", idempotent=True)(work)
    by_tenacity = tenacity.retry(
        stop=tenacity.stop_after_attempt(3), wait=tenacity.wait_random_exponential()
    )(work)
    by_stamina = stamina.retry(on=Exception, attempts=3)(work)

    def loop(function: Callable[[], Any]) -> Callable[[int], None]:
        def run(count: int) -> None:
            for _ in range(count):
                function()

        return run

    figures = {
        "the bare function": loop(work),
        "holdoff, client.call": loop(lambda: client.call("payments", work, idempotent=True)),
        "holdoff, @client.guarded": loop(guarded),
        "tenacity, @retry": loop(by_tenacity),
        "stamina, @retry": loop(by_stamina),
    }
    measured = {name: microseconds(run, calls) for name, run in figures.items()}
    counters = client.counters()
    assert counters.asked == counters.local_grants == 0, "a hop, or a local decision"
    client.close()
    return measured


async def of_tasks(endpoint: str, calls: int) -> dict[str, float]:
    client = holdoff.aio.Client([endpoint], service="bench", follow=["payments"])
    assert await client.connect(5.0)
    by_tenacity = tenacity.retry(
        stop=tenacity.stop_after_attempt(3), wait=tenacity.wait_random_exponential()
    )(work_awaited)
    by_stamina = stamina.retry(on=Exception, attempts=3)(work_awaited)
    figures: dict[str, Callable[[], Awaitable[Any]]] = {
        "the bare function, awaited": work_awaited,
        "holdoff, aio client.call": lambda: client.call("payments", work_awaited, idempotent=True),
        "tenacity, @retry awaited": by_tenacity,
        "stamina, @retry awaited": by_stamina,
    }
    measured = {}
    for name, function in figures.items():
        rounds = []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            for _ in range(calls):
                await function()
            rounds.append((time.perf_counter() - begun) / calls * 1e6)
            await asyncio.sleep(0.01)
        measured[name] = statistics.median(rounds)
    counters = client.counters()
    assert counters.asked == counters.local_grants == 0, "a hop, or a local decision"
    await client.close()
    return measured


def main(calls: int) -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=serve, args=(there,), daemon=True)
    server.start()
    endpoint = here.recv()
    figures = of_threads(endpoint, calls) | asyncio.run(of_tasks(endpoint, calls))
    for name, cost in figures.items():
        print(f"{name:<28} {cost:8.2f} µs")
    here.send(None)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
