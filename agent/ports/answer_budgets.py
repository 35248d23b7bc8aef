"""Budgets of routers: they limit how many probes each has to answer, at once and in a second.

Routers limit the ICMP messages that they send, and a probe beyond the limit tells nothing. Which router answers a probe
is known afterwards only. So a probe that is under way holds a token of each router that may answer it, and the one that
has answered then loses its token. A token is charged when the answer arrives, which is later than the router has sent
it: the budget therefore never has more tokens than the router's own bucket of the same size and rate, whatever the
delay.

A switch may have one limit for the probes of all hosts. Then a host has a share of it, which is the same for all at
first. Here a probe costs each router that may answer the same part of a token: one host may ask a router too much by
chance, but all hosts together hardly do. What hosts do not use that have found their ports goes to the others: the
share grows with each answer, and is halved by each probe without one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from agent.ports.probe_task import AnswerBudget

ROUNDING = 1e-9
"""Of a token: errors of rounding while they grow."""

LEAST_PART = 1 / 8
"""Of the rate, which is halved by each unanswered probe and doubled by each answer."""


SHARE_GROWTH = 1 / 8
"""Of the share, with each answer. In equilibrium with halving, one probe in six has no answer at most."""
SHARE_SECONDS = 1.0
"""The part of a second's share that a host may use at once."""


@dataclass
class _Bucket:
    """Tokens of a router at a time, how many are held by probes under way, and the rate at which they grow."""

    tokens: float
    at: float
    a_second: float
    held: int = 0
    has_answered: bool = False


class _Share:
    """The share of a host in what routers answer to all hosts.

    All routers that may answer a probe lose the same part of a token when it is sent, of which the share gives them so
    many a second.
    """

    def __init__(self, budget: AnswerBudget) -> None:
        self._least, self._most = budget.share * LEAST_PART, budget.a_second
        self._a_second = budget.share
        self._tokens: dict[str, float] = {}
        self._at = 0.0

    def wait(self, routers: Collection[str], now: float) -> float:
        self._fill(now)
        part = 1 / len(routers)
        fullest = max(part, self._a_second * SHARE_SECONDS)
        lowest = min(self._tokens.setdefault(router, fullest) for router in routers)
        return max(part - lowest - ROUNDING, 0.0) / self._a_second

    def send(self, routers: Collection[str]) -> None:
        for router in routers:
            self._tokens[router] -= 1 / len(routers)

    def answered(self) -> None:
        self._a_second = min(self._a_second * (1 + SHARE_GROWTH), self._most)

    def lost(self) -> None:
        self._a_second = max(self._a_second / 2, self._least)

    def _fill(self, now: float) -> None:
        grown = (now - self._at) * self._a_second
        if grown > 0:
            self._at = now
            # A probe that only one router may answer takes a whole token.
            most = max(1.0, self._a_second * SHARE_SECONDS)
            self._tokens = {router: min(tokens + grown, most) for router, tokens in self._tokens.items()}


class AnswerBudgets:
    """The budgets of all routers. Times are seconds of one clock."""

    def __init__(self, budget: AnswerBudget) -> None:
        """Begin with full budgets."""
        self._budget = budget
        self._buckets: dict[str, _Bucket] = {}
        self._share = _Share(budget) if budget.share < budget.a_second else None

    def allows(self, routers: Collection[str], now: float) -> bool:
        """Return whether each of these routers may get a probe."""
        return self.wait(routers, now) <= 0

    def wait(self, routers: Collection[str], now: float) -> float:
        """Return the seconds until each of these routers may get a probe, if no answer comes before."""
        longest = 0.0 if self._share is None else self._share.wait(routers, now)
        for router in routers:
            bucket = self._filled(router, now)
            if (missing := bucket.held + 1 - bucket.tokens) > ROUNDING:
                longest = max(longest, missing / bucket.a_second if bucket.held < self._budget.burst else float("inf"))
        return longest

    def send(self, routers: Collection[str], now: float) -> None:
        """Note a probe that one of these routers will answer."""
        for router in routers:
            self._filled(router, now).held += 1
        if self._share is not None:
            self._share.send(routers)

    def answered(self, routers: Collection[str], by: str, now: float) -> None:
        """Note the answer of one router to a probe that any of ``routers`` might have answered."""
        self._release(routers, now)
        bucket = self._filled(by, now)
        bucket.tokens = max(bucket.tokens - 1, 0.0)
        bucket.has_answered = True
        bucket.a_second = min(2 * bucket.a_second, self._budget.a_second)
        if self._share is not None:
            self._share.answered()

    def lost(self, routers: Collection[str], now: float) -> None:
        """Note that a probe has no answer: any of the routers may have sent one, or refused it by its limit."""
        self._release(routers, now)
        if self._share is not None:
            # The limit for all hosts together is the lower one.
            self._share.lost()
            return
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
