"""Budgets of routers: they limit how many probes each has to answer, at once and in a second.

Routers limit the ICMP messages that they send, and a probe beyond the limit tells nothing. Which router answers a probe
is known afterwards only. So a probe that is under way holds a token of each router that may answer it, and the one that
has answered then loses its token. A token is charged when the answer arrives, which is later than the router has sent
it: the budget therefore never has more tokens than the router's own bucket of the same size and rate, whatever the
delay.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from agent.ports.probe_task import AnswerBudget

ROUNDING = 1e-9
"""Of a token: errors of rounding while they grow."""

LEAST_PART = 1 / 8
"""Of the rate, which is halved by each unanswered probe and doubled by each answer."""


@dataclass
class _Bucket:
    """Tokens of a router at a time, how many are held by probes under way, and the rate at which they grow."""

    tokens: float
    at: float
    a_second: float
    held: int = 0
    has_answered: bool = False


class AnswerBudgets:
    """The budgets of all routers. Times are seconds of one clock."""

    def __init__(self, budget: AnswerBudget) -> None:
        """Begin with full budgets."""
        self._budget = budget
        self._buckets: dict[str, _Bucket] = {}

    def allows(self, routers: Collection[str], now: float) -> bool:
        """Return whether each of these routers may get a probe."""
        return self.wait(routers, now) <= 0

    def wait(self, routers: Collection[str], now: float) -> float:
        """Return the seconds until each of these routers may get a probe, if no answer comes before."""
        longest = 0.0
        for router in routers:
            bucket = self._filled(router, now)
            if (missing := bucket.held + 1 - bucket.tokens) > ROUNDING:
                longest = max(longest, missing / bucket.a_second if bucket.held < self._budget.burst else float("inf"))
        return longest

    def send(self, routers: Collection[str], now: float) -> None:
        """Note a probe that one of these routers will answer."""
        for router in routers:
            self._filled(router, now).held += 1

    def answered(self, routers: Collection[str], by: str, now: float) -> None:
        """Note the answer of one router to a probe that any of ``routers`` might have answered."""
        self._release(routers, now)
        bucket = self._filled(by, now)
        bucket.tokens = max(bucket.tokens - 1, 0.0)
        bucket.has_answered = True
        bucket.a_second = min(2 * bucket.a_second, self._budget.a_second)

    def lost(self, routers: Collection[str], now: float) -> None:
        """Note that a probe has no answer: any of the routers may have sent one, or refused it by its limit."""
        self._release(routers, now)
        for router in routers:
            bucket = self._filled(router, now)
            bucket.tokens = max(bucket.tokens - 1, 0.0)
            # One that has never answered is not slowed by its limit, and would delay the probes of all others.
            if bucket.has_answered:
                bucket.a_second = max(bucket.a_second / 2, self._budget.a_second * LEAST_PART)

    def _release(self, routers: Collection[str], now: float) -> None:
        for router in routers:
            self._filled(router, now).held -= 1

    def _filled(self, router: str, now: float) -> _Bucket:
        bucket = self._buckets.get(router)
        if bucket is None:
            bucket = self._buckets[router] = _Bucket(self._budget.burst, now, self._budget.a_second)
        # Answers have a later time than the end of the patience for others, which is judged by when reading began.
        if now > bucket.at:
            bucket.tokens = min(bucket.tokens + (now - bucket.at) * bucket.a_second, self._budget.burst)
            bucket.at = now
        return bucket
