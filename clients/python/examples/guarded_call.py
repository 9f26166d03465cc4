"""Everything a guarded call can do: no hop while all is well, HTTP statuses and `Retry-After`, a
deadline, waiting when the answer is no, a fallback, the error of a call that was given up, and the
same as a decorator, as a loop and awaited.
"""

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import holdoff
import holdoff.aio

ENDPOINTS = sys.argv[1:] or ["http://127.0.0.1:7460"]


def throttled_once(attempt: holdoff.Attempt) -> Any:
    print(f"attempt {attempt.number}")
    if attempt.number == 1:
        return SimpleNamespace(status_code=429, headers={"retry-after": "1"})
    return SimpleNamespace(status_code=200, headers={})


def reset(attempt: holdoff.Attempt) -> int:
    raise ConnectionResetError("connection reset")


def main() -> None:
    client = holdoff.Client(ENDPOINTS, service="checkout", timeout=0.05, follow=["catalogue"])

    print("-- while the dependency is well, calls ask nothing")
    client.connect(0.5)
    for _ in range(1_000):
        client.call("catalogue", lambda attempt: None)
    done = client.counters()
    print(
        f"1000 calls: {done.pushed_grants} without a hop, {done.answered} asked, "
        f"{done.local_grants} decided here"
    )

    print("-- a response with Retry-After is waited for")
    response = client.call(
        "inventory",
        throttled_once,
        idempotent=True,
        deadline=5.0,
        on_denied="wait",
        classify=holdoff.classify.http,
    )
    print(f"status {response.status_code}")

    print("-- an unsafe call that may have been executed is not repeated")
    try:
        client.call("payments", reset)
    except ConnectionError as error:
        why = holdoff.stopped(error)
        print(f"the last real error: {error!r}")
        print(f"why there was no retry: {why.reason.name if why else None}")

    print("-- a fallback where the call is given up")
    price = client.call("prices", reset, fallback=lambda why, error: 42)
    print(f"a price from the cache: {price}")

    print("-- the same as a decorator")

    @client.guarded("catalogue", idempotent=True)
    def item(name: str) -> str:
        return f"{name}, at attempt {holdoff.attempt().number}"

    print(item("a needle"))

    print("-- the same as a loop")
    for attempt in client.attempts("catalogue", idempotent=True, deadline=2.0):
        with attempt:
            print(f"attempt {attempt.number}")

    client.close()
    print("-- the same awaited")
    asyncio.run(awaited())


async def awaited() -> None:
    async def hello(attempt: holdoff.Attempt) -> str:
        return "hello"

    async with holdoff.aio.Client(ENDPOINTS, service="checkout") as client:
        print(await client.call("catalogue", hello, idempotent=True, deadline=2.0))


if __name__ == "__main__":
    main()
