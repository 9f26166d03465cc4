"""How code that makes guarded calls is tested: no service, no waiting, at most three attempts."""

import time

import holdoff


class Rates:
    """The code under test. In production it gets a client that knows a service."""

    def __init__(self, client: holdoff.Client) -> None:
        self._client = client
        self.calls = 0

    def fetch(self) -> int:
        return self._client.call("rates", self._fetch, idempotent=True, deadline=30.0)

    def _fetch(self, attempt: holdoff.Attempt) -> int:
        self.calls += 1
        if self.calls < 3:
            raise ConnectionError("503")
        return self.calls


def hopeless(attempt: holdoff.Attempt) -> None:
    raise ConnectionError("503")


client, begun = holdoff.Client.testing(), time.monotonic()
rates = Rates(client)
print(f"it recovers: {rates.fetch()}, after {rates.calls} calls")
try:
    client.call("rates", hopeless, idempotent=True)
except ConnectionError as error:
    print(f"it gives up: {error}, since {holdoff.stopped(error)}")
print(f"without waiting: {time.monotonic() - begun < 1.0}")
