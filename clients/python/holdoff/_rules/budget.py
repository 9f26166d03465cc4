"""How many retries may be made: a share of the first attempts plus a floor.

    retries <= floor(ratio * first attempts + floor_per_second * ttl)    in any window of `ttl`

in exact integers. The window is a ring of ten buckets and the part of an eleventh, which lies
partly outside of it: its retries count and its first attempts do not, so that rounding goes
against the grant.
"""

from __future__ import annotations

from .arithmetic import NS
from .policy import Policy

BUCKETS = 10
RING = BUCKETS + 1


class Budget:
    """The first attempts and retries of the last `ttl`, as counts per bucket."""

    __slots__ = ("_bucket", "_first", "_newest", "_retries")

    def __init__(self) -> None:
        self._bucket = 0
        self._newest = 0
        self._first = [0] * RING
        self._retries = [0] * RING

    def deposit(self, policy: Policy, count: int, now: int) -> None:
        self._turn_to(policy, now)
        self._first[self._newest % RING] += count

    def withdraw(self, policy: Policy, now: int) -> None:
        self._turn_to(policy, now)
        self._retries[self._newest % RING] += 1

    def refund(self, policy: Policy, taken_at: int, now: int) -> None:
        """Nothing where the bucket it was taken in has left the window."""
        self._turn_to(policy, now)
        index = taken_at // self._bucket
        if index <= self._newest < index + RING and self._retries[index % RING]:
            self._retries[index % RING] -= 1

    def level(self, policy: Policy, now: int) -> tuple[int, int, int]:
        """First attempts, retries, and how many retries are allowed in all."""
        self._turn_to(policy, now)
        first_attempts = retries = 0
        for index in range(max(self._newest - BUCKETS, 0), self._newest + 1):
            retries += self._retries[index % RING]
            if self._newest - index < BUCKETS:
                first_attempts += self._first[index % RING]
        floor = policy.floor_micros_per_second * policy.budget_ttl_ns // NS
        allowed = (policy.budget_ratio_ppm * first_attempts + floor) // 1_000_000
        return first_attempts, retries, allowed

    def _turn_to(self, policy: Policy, now: int) -> None:
        bucket = max(-(-policy.budget_ttl_ns // BUCKETS), 1)
        if bucket != self._bucket:
            self._change_length(policy, bucket, now)
        newest = now // self._bucket
        for step in range(min(max(newest - self._newest, 0), RING)):
            self._first[(newest - step) % RING] = 0
            self._retries[(newest - step) % RING] = 0
        self._newest = max(newest, self._newest)

    def _change_length(self, policy: Policy, bucket: int, now: int) -> None:
        """A new `ttl`. What is known goes into the new buckets, rounded against the grant:
        retries as late, first attempts as early as they can have been. What a longer window adds
        to the floor counts as spent, since the retries before the old one are not known any more.
        """
        length, last = self._bucket, self._newest
        first, retries = self._first, self._retries
        self._bucket, self._newest = bucket, now // bucket
        self._first, self._retries = [0] * RING, [0] * RING
        if length == 0:
            return
        for index in range(max(last - BUCKETS, 0), last + 1):
            begin = min(index * length, now) // bucket
            end = min((index + 1) * length - 1, now) // bucket
            if self._newest - begin < RING:
                self._first[begin % RING] += first[index % RING]
            if self._newest - end < RING:
                self._retries[end % RING] += retries[index % RING]
        longer = max(bucket - length, 0) * BUCKETS
        unknown = policy.floor_micros_per_second * longer // NS
        self._retries[self._newest % RING] += -(-unknown // 1_000_000)
