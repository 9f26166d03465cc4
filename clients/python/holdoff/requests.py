"""An adapter that guards every request of a `requests.Session`.

    session = requests.Session()
    session.mount("https://", HoldoffAdapter(holdoff.Client()))

The dependency is the host, unless `dependency` says otherwise, and the methods that HTTP calls
idempotent are retried. Any setting of `Client.call` may be given. A response that counts as a
failure is returned as it is where there is no further attempt; errors of requests are raised as
they are. Where no attempt was made, `Denied` is raised, which is a `requests.ConnectionError`
too; where all were cut off at a limit of time, `TimedOut`, a `requests.Timeout`. A request with an
`Idempotency-Key` is retried whatever its method. A body that is a file or an iterator is sent once.
What an attempt was answered is closed before the next one, and where the call is given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional, Union

import requests
from requests.adapters import HTTPAdapter

from . import _http, classify, denial
from ._calling import Attempt
from ._sync import Client

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._question import Settings

Dependency = Union[str, Callable[[requests.PreparedRequest], str]]


class Denied(denial.Denied, requests.ConnectionError):
    """No attempt was made."""

    def __init__(self, why: denial.Denied, request: requests.PreparedRequest) -> None:
        denial.Denied.__init__(self, why.by, why.reason, why.detail, why.retry_after)
        self.request, self.response = request, None


class TimedOut(denial.TimedOut, requests.Timeout):
    """All attempts were cut off at a limit of time."""

    def __init__(self, why: denial.TimedOut, request: requests.PreparedRequest) -> None:
        denial.TimedOut.__init__(self, why.attempts, why.stop.why, why.stop.was_retried)
        self.request, self.response = request, None


class HoldoffAdapter(HTTPAdapter):
    """`adapter` takes the place of requests' own, which must not retry by itself."""

    def __init__(
        self,
        client: Client,
        adapter: Optional[HTTPAdapter] = None,
        *,
        dependency: Optional[Dependency] = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__()
        self._client = client
        self._adapter = adapter or HTTPAdapter(max_retries=0)
        self._dependency = dependency
        self._settings = settings

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        responses: list[requests.Response] = []

        def send(attempt: Attempt) -> requests.Response:
            _http.let_go(responses)
            limited = _limited(timeout, attempt.limit)
            response = self._adapter.send(request, stream, limited, verify, cert, proxies)
            responses.append(response)
            return response

        said: Any = {"classify": classify.http, **self._settings}
        can_repeat = request.body is None or isinstance(request.body, (bytes, str))
        settings = _http.settings(said, request.method or "GET", request.headers, can_repeat)
        try:
            return self._client.call(self._name(request), send, **settings)
        except denial.Denied as why:
            raise Denied(why, request) from None
        except denial.TimedOut as why:
            raise TimedOut(why, request) from None
        except BaseException:
            _http.let_go(responses)
            raise

    def close(self) -> None:
        self._adapter.close()
        super().close()

    def _name(self, request: requests.PreparedRequest) -> str:
        if callable(self._dependency):
            return self._dependency(request)
        return self._dependency or _http.name_of(request.url or "")


def _limited(timeout: Any, limit: Optional[float]) -> Any:
    """Both of requests' timeouts are at most the attempt's limit."""
    if limit is None:
        return timeout
    connect, read = timeout if isinstance(timeout, tuple) else (timeout, timeout)
    return _http.least(connect, limit), _http.least(read, limit)
