"""Asks holdoff before a call, retries when it says, and goes on without it when it is away.

    import holdoff

    client = holdoff.Client(service="checkout")
    receipt = client.call("payments", charge, idempotent=True, deadline=2.0)

| module | |
|---|---|
| `holdoff.aio` | the same for asyncio |
| `holdoff.classify` | how results and errors are read |
| `holdoff.httpx`, `holdoff.requests`, `holdoff.grpc` | adapters |
"""

import logging

from . import classify
from ._attempts import Guard
from ._calling import Attempt, current
from ._channel import Tls
from ._check import check
from ._checking import Away, Check, Checked, Finding, NotPlanned, Ran, Shared, Verdict
from ._counters import Counters
from ._local_policy import local_policy
from ._rules.policy import Policy
from ._supervise import supervise
from ._sync import Attempts, Client, Permit
from .denial import Cancelled, Denied, DeniedBy, Reason, TimedOut, stopped
from .outcome import Outcome, OutcomeKind


def attempt() -> Attempt:
    """The attempt in which this code runs, in a function that is `guarded`."""
    return current.get()


# Who wants to read warnings says where; see the documentation of `logging`.
logging.getLogger("holdoff").addHandler(logging.NullHandler())

__version__ = "0.1.0"
__all__ = [
    "Attempt",
    "Attempts",
    "Away",
    "Cancelled",
    "Check",
    "Checked",
    "Client",
    "Counters",
    "Denied",
    "DeniedBy",
    "Finding",
    "Guard",
    "NotPlanned",
    "Outcome",
    "OutcomeKind",
    "Permit",
    "Policy",
    "Ran",
    "Reason",
    "Shared",
    "TimedOut",
    "Tls",
    "Verdict",
    "attempt",
    "check",
    "classify",
    "local_policy",
    "stopped",
    "supervise",
]
