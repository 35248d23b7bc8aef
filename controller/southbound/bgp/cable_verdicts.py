"""Which cables are down, by all who show something of them: probes of agents, and the routes of routers.

- What two agents accuse is down, whatever routers say: packets may be lost where BGP's keepalives are not.
- What a router does not reach any more is down at once. It works all the same if probes of two hosts go over it later:
  then only BGP has lost it, and packets that hosts give a path do not need BGP. Routers pass over a cable that they see
  to be down, where they can, so a probe may come back by another way. It shows a cable only if bypass probes do not
  come back, or if routers reach another cable of the probe: both are passed over only if both are down.
  If neither is so, it does not clear its cables either, so that no other cable is accused. Nothing shows a cable that
  routers replace by another one.
- A cable of which neither says enough is unknown. Plans use it unless it was down before and its probes do not come
  back, and nobody is told that it works.

Whenever the two say different things, this is a conflict, which is told for people.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from controller.southbound.bgp.router_reach import CableSign, RouterReach
from controller.southbound.srv6.cable_evidence import SETTLE_SECONDS, WITNESSES, CableEvidence

MOST_CONFLICTS = 5
"""Conflicts that are told one by one."""


class CableVerdicts:
    """Judges cables. Times are seconds of one clock.

    Attributes:
        cables: why a cable is down, or an empty text if it works; nothing of cables of which too little is known.
        passed_cables: those of these whose probes come back all the same: packets pass over them, or beside them.
    """

    def __init__(
        self,
        names: Sequence[str],
        reach: RouterReach | None = None,
        *,
        replaceable: Collection[int] = (),
        changed: Callable[[bool], None] = lambda failed: None,
        noticed: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin with what is known of nothing.

        Args:
            names: of the cables, by number.
            reach: what routers tell, kept by another one; ``None``: they are not heard.
            replaceable: cables for which routers take others where they see that they are down.
            changed: called when ``cables`` has changed, with whether one more is down.
            noticed: called when ``conflicts`` has changed.
        """
        self._names, self._reach = names, reach
        self._agents, self._agents_count = CableEvidence(replaceable), True
        self._replaceable = frozenset(replaceable)
        # Of each cable that routers lack, the last probes of hosts that came back: when, and all their cables; and
        # whether bypass probes have shown it.
        self._back: dict[int, dict[str, tuple[float, list[frozenset[int]], bool]]] = {}
        self._lacking, self._lacking_at = frozenset[int](), -1
        self._changed, self._noticed = changed, noticed
        self.cables: Mapping[int, str] = {}
        self.passed_cables: frozenset[int] = frozenset()
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

    def take(
        self,
        host: str,
        now: float,
        dead: Iterable[frozenset[int]],
        passed: Collection[frozenset[int]],
        shown: Collection[int] = (),
    ) -> None:
        """Take a report of an agent.

        Args:
            host: whose it is.
            now: the time.
            dead: of each dead path, the cables of which one at least is down.
            passed: of each path of which all probes since the last report have come back, what it is to cross.
            shown: the cables over which probes have gone for certain, as bypass probes show.
        """
        self._look_for_lacking()
        passed = [way for way in passed if not way <= self._lacking]
        for cable, hosts in self._back.items():
            if ways := [way for way in passed if cable in way]:
                hosts[host] = now, ways, cable in shown
            elif cable in shown:
                hosts[host] = now, [], True
        reached = (way for way in passed if self._reaches_any(way, now))
        self._agents.take(host, now, dead, frozenset[int]().union(*passed), frozenset(shown).union(*reached))
        self.judge(now)

    def silent(self, hosts: Iterable[str], now: float) -> None:
        """Count what hosts have reported no more until they are heard again."""
        for host in hosts:
            self._agents.silent(host)
        self.judge(now)

    def judge(self, now: float) -> None:
        """Judge by what is known now."""
        if self._reach is not None:
            self._reach.look(now)
        self._look_for_lacking()
        self._agents.judge(now)
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
        passed = self._agents.passed - cables.keys() if self._agents_count else frozenset[int]()
        if cables != self.cables or passed != self.passed_cables:
            failed = any(reason and not self.cables.get(cable) for cable, reason in cables.items())
            self.cables, self.passed_cables = cables, passed
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
        if self._agents_count and self._works(cable, sign.since + SETTLE_SECONDS):
            return "", f"{lost}, but probes of hosts come back over it; it counts as up"
        if sign.reaching and settled:
            return lost, f"{lost}, but {_and(sign.reaching)} has one; it counts as down"
        return lost, ""

    def _look_for_lacking(self) -> None:
        """Look which cables routers lack: what came back over these before may have taken another way already."""
        if self._reach is None or self._reach.version == self._lacking_at:
            return
        self._lacking_at = self._reach.version
        lacking = frozenset(cable for cable, sign in self._reach.signs.items() if not sign.up)
        self._agents.doubt(lacking - self._lacking)
        self._lacking = lacking
        self._back = {cable: self._back.get(cable, {}) for cable in lacking - self._replaceable}

    def _works(self, cable: int, since: float) -> bool:
        """Return whether two hosts show that a cable works which routers lack since a time."""
        reports, hosts = self._back.get(cable, {}), 0
        for host in self._agents.passing_since(cable, since) & reports.keys():
            at, ways, shown = reports[host]
            hosts += shown or any(self._reaches_any(way - {cable}, at) for way in ways)
        return hosts >= WITNESSES

    def _reaches_any(self, cables: frozenset[int], at: float) -> bool:
        """Return whether routers reach one of these cables, and did so long before a report, which may be late."""
        if self._reach is None:
            return False
        signs = (self._reach.signs.get(cable) for cable in cables)
        return any(sign is not None and sign.up and at - sign.since >= SETTLE_SECONDS for sign in signs)


def _and(names: Sequence[str]) -> str:
    return " and ".join(names)
