"""Which cables are down, by all who show something of them: probes of agents, and the routes of routers.

- What two agents accuse is down, whatever routers say: packets may be lost where BGP's keepalives are not.
- What a router does not reach any more is down at once. It works all the same if probes of two hosts come back over it
  later: then only BGP has lost it, and packets that hosts give a path do not need BGP.

Whenever the two say different things, this is a conflict, which is told for people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from controller.southbound.bgp.router_reach import CableSign, RouterReach
from controller.southbound.srv6.cable_evidence import SETTLE_SECONDS, CableEvidence

MOST_CONFLICTS = 5
"""Conflicts that are told one by one."""


class CableVerdicts:
    """Judges cables. Times are seconds of one clock.

    Attributes:
        cables: why a cable is down, or an empty text if it works; nothing of cables of which too little is known.
    """

    def __init__(
        self,
        names: Sequence[str],
        reach: RouterReach | None = None,
        *,
        changed: Callable[[bool], None] = lambda failed: None,
        noticed: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin with what is known of nothing.

        Args:
            names: of the cables, by number.
            reach: what routers tell, kept by another one; ``None``: they are not heard.
            changed: called when ``cables`` has changed, with whether one more is down.
            noticed: called when ``conflicts`` has changed.
        """
        self._names, self._reach = names, reach
        self._agents, self._agents_count = CableEvidence(), True
        self._changed, self._noticed = changed, noticed
        self.cables: Mapping[int, str] = {}
        self._conflicts: dict[int, str] = {}
        self._judged: tuple[int, int, bool] | None = None
        self._waits = False

    @property
    def conflicts(self) -> list[str]:
        """What is told of cables and contradicts itself, for people."""
        texts = [self._conflicts[cable] for cable in sorted(self._conflicts)]
        more = len(texts) - MOST_CONFLICTS
        return texts if more <= 0 else [*texts[:MOST_CONFLICTS], f"routers and agents disagree on {more} more cables"]

    def count_agents(self, counted: bool, now: float) -> None:
        """Let the reports of agents count, or not: hosts that follow no plans send none."""
        self._agents_count = counted
        self.judge(now)

    def take(self, host: str, now: float, dead: Iterable[frozenset[int]], passed: Iterable[int]) -> None:
        """Take a report of an agent (see ``CableEvidence.take``)."""
        self._agents.take(host, now, dead, passed)
        self.judge(now)

    def silent(self, hosts: Iterable[str], now: float) -> None:
        """Count what hosts have reported no more until they are heard again."""
        for host in hosts:
            self._agents.silent(host)
        self.judge(now)

    def judge(self, now: float) -> None:
        """Judge by what is known now."""
        self._agents.judge(now)
        if self._reach is not None:
            self._reach.look(now)
        known = self._agents.version, 0 if self._reach is None else self._reach.version, self._agents_count
        if known == self._judged and not self._waits:
            return
        signs = {} if self._reach is None else self._reach.signs
        agents = self._agents.cables if self._agents_count else {}
        cables, conflicts = dict(agents), {}
        self._judged, self._waits = known, False
        for cable, sign in signs.items():
            # With time, this becomes a conflict, or probes come back over it.
            self._waits |= not sign.up or bool(agents.get(cable))
            cables[cable], conflict = self._both(cable, agents.get(cable), sign, now)
            if conflict:
                conflicts[cable] = f"{self._names[cable]}: {conflict}"
        if cables != self.cables:
            failed = any(reason and not self.cables.get(cable) for cable, reason in cables.items())
            self.cables = cables
            self._changed(failed)
        if conflicts != self._conflicts:
            self._conflicts = conflicts
            self._noticed()

    def _both(self, cable: int, agents: str | None, sign: CableSign, now: float) -> tuple[str, str]:
        """Return why a cable is down, by agents and routers, and how they disagree."""
        settled = now - sign.since >= SETTLE_SECONDS
        if agents:
            says = (
                f"{_and(sign.reaching)} still {'reaches' if len(sign.reaching) == 1 else 'reach'} the other end by BGP"
            )
            return agents, f"{agents}, but {says}; it counts as down" if sign.up and settled else ""
        if sign.up:
            return "", ""
        lost = f"{_and(sign.lacking)} {'has' if len(sign.lacking) == 1 else 'have'} no BGP session over it"
        if self._agents_count and self._agents.confirmed_since(cable, sign.since + SETTLE_SECONDS):
            return "", f"{lost}, but probes of hosts come back over it; it counts as up"
        if sign.reaching and settled:
            return lost, f"{lost}, but {_and(sign.reaching)} has one; it counts as down"
        return lost, ""


def _and(names: Sequence[str]) -> str:
    return " and ".join(names)
