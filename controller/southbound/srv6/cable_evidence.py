"""Which cables are down, by what the agents of hosts report; pure, and with its own idea of whom to believe.

Probes that come back *show* a cable where it is certain that they went over it. Switches pass over what they see to be
down, so other probes that come back say less (``cable_probes``).

A host *accuses* a cable if a path over it is dead, and all other cables of this path are *cleared*: probes of the same
host, or of two other ones, have shown them since. A cable is down as soon as two hosts accuse it: so what one host
says, whatever it says, takes no cable away from others. It works if two hosts show it, and does not lose packets for
them. When fewer than two accuse it, and probes of two hosts come back that may have taken other ways, it is neither:
nothing is known of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

WITNESSES = 2
"""Hosts that must say the same of a cable."""

SETTLE_SECONDS = 2.0
"""A path of several cables may be dead, and the reports of others about the same failure still to come."""

MOST_NAMED = 3
"""Hosts that one reason names."""


@dataclass
class _Host:
    """What a host has reported.

    Attributes:
        dead: for each dead path, the cables of which one is down, and when this was reported first.
        heard: whether its reports count: it is not silent.
    """

    dead: dict[frozenset[int], float] = field(default_factory=dict)
    heard: bool = True


@dataclass
class _Down:
    """A cable that is down: who says so, and when enough have said so last."""

    witnesses: tuple[str, ...]
    at: float


class CableEvidence:
    """What agents have shown of cables, which are numbers. Times are seconds of one clock."""

    def __init__(self, replaceable: Collection[int] = ()) -> None:
        """Begin without reports.

        Args:
            replaceable: cables for which routers take others where they see that they are down: nothing shows them.
        """
        self._replaceable = frozenset(replaceable)
        self._hosts: dict[str, _Host] = {}
        self._passed: dict[int, dict[str, float]] = defaultdict(dict)
        self._shown: dict[int, dict[str, float]] = defaultdict(dict)
        self._down: dict[int, _Down] = {}
        self._up: set[int] = set()
        self._passable: set[int] = set()
        self._accusing: set[str] = set()
        self.version = 0
        """Grows whenever other cables work or are down than before."""

    def take(
        self,
        host: str,
        now: float,
        dead: Iterable[frozenset[int]],
        passed: Iterable[int],
        shown: Collection[int],
    ) -> None:
        """Take a report.

        Args:
            host: whose it is.
            now: the time.
            dead: of each dead path, the cables of which one at least is down.
            passed: cables over which probes have come back since the last report, and none was lost.
            shown: those of them over which they have gone for certain.
        """
        own = self._hosts.setdefault(host, _Host())
        own.heard = True
        own.dead = {path: own.dead.get(path, now) for path in dead if path}
        if own.dead:
            self._accusing.add(host)
        else:
            self._accusing.discard(host)
        for cable in passed:
            self._passed[cable][host] = now
            if cable not in self._passable and cable not in self._down and self._passes(cable):
                self._passable.add(cable)
                self.version += 1
            if cable not in shown and self._shown[cable].pop(host, None) is not None:
                # It came back by a way that is no longer certain.
                self._doubt(cable)
        for cable in shown:
            if cable in self._replaceable:
                continue
            self._shown[cable][host] = self._passed[cable][host] = now
            if cable not in self._up and cable not in self._down and self._confirmed(cable):
                self._up.add(cable)
                self.version += 1

    def doubt(self, cables: Iterable[int]) -> None:
        """Forget which probes have come back over cables: they may have taken other ways."""
        for cable in cables:
            self._passed.pop(cable, None)
            self._shown.pop(cable, None)

    def silent(self, host: str) -> None:
        """Count what a host has reported no more until it is heard again."""
        if host in self._hosts:
            self._hosts[host].heard = False
            before, self._up = len(self._up), {cable for cable in self._up if self._confirmed(cable)}
            self.version += len(self._up) != before

    def judge(self, now: float) -> None:
        """Find cables that are down, that work, or of which nothing is known any more."""
        accusers: dict[int, set[str]] = defaultdict(set)
        doubted = set[int]()
        for name in self._accusing:
            own = self._hosts[name]
            for path, first in own.dead.items() if own.heard else ():
                if now - first >= SETTLE_SECONDS:
                    doubted |= path & self._up
                for cable in path:
                    if self._accuses(name, path, cable, first, now):
                        accusers[cable].add(name)
        for cable, names in accusers.items():
            if len(names) >= WITNESSES:
                self.version += cable not in self._down
                self._down[cable] = _Down(tuple(sorted(names)), now)
                self._up.discard(cable)
                self._passable.discard(cable)
        for cable, down in list(self._down.items()):
            if len(accusers.get(cable, ())) < WITNESSES and self._passes(cable, since=down.at):
                del self._down[cable]
                self._passable.add(cable)
                self.version += 1
                if self._confirmed(cable, since=down.at):
                    self._up.add(cable)
        for cable in doubted:
            self._doubt(cable)

    @property
    def cables(self) -> Mapping[int, str]:
        """Why a cable is down, or an empty text if it works; nothing of cables of which too little is known."""
        return dict.fromkeys(self._up, "") | {cable: _reason(down.witnesses) for cable, down in self._down.items()}

    @property
    def passed(self) -> frozenset[int]:
        """The cables that are not down and whose probes come back to two hosts, whether they work or others do."""
        return frozenset(self._passable)

    @property
    def down(self) -> frozenset[int]:
        """The cables that are down."""
        return frozenset(self._down)

    def _doubt(self, cable: int) -> None:
        """Count a cable as unknown if too few show any more that it works."""
        if cable in self._up and not self._confirmed(cable):
            self._up.discard(cable)
            self.version += 1

    def passing_since(self, cable: int, since: float) -> set[str]:
        """Return the hosts to which probes over a cable have come back after a time, and since they lost any there."""
        return self._passing(cable, since)

    def _accuses(self, name: str, path: frozenset[int], cable: int, first: float, now: float) -> bool:
        others, own = path - {cable}, self._hosts[name]
        if not others:
            return True
        if any(frozenset({each}) in own.dead for each in others):
            # That one explains it.
            return False
        return now - first >= SETTLE_SECONDS and all(self._cleared(each, name, first) for each in others)

    def _cleared(self, cable: int, by: str, since: float) -> bool:
        """Return whether a cable has been shown to one host, or to two others, after a time.

        For a replaceable cable, routers take the same other one for all probes of a host.
        """
        if cable in self._replaceable:
            return by in self._passing(cable, since)
        shown = self._showing(cable, since)
        return by in shown or len(shown) >= WITNESSES

    def _confirmed(self, cable: int, since: float = float("-inf")) -> bool:
        return len(self._showing(cable, since)) >= WITNESSES

    def _passes(self, cable: int, since: float = float("-inf")) -> bool:
        return len(self._passing(cable, since)) >= WITNESSES

    def _passing(self, cable: int, since: float) -> set[str]:
        """Return the hosts to which probes over a cable have come back after a time, and since they lost any there."""
        return self._not_lost(cable, self._passed.get(cable, {}), since)

    def _showing(self, cable: int, since: float) -> set[str]:
        """Return those of them that have gone over it for certain."""
        return self._not_lost(cable, self._shown.get(cable, {}), since)

    def _not_lost(self, cable: int, times: Mapping[str, float], since: float) -> set[str]:
        names = set()
        for name, at in times.items():
            own = self._hosts[name]
            lost = max((first for path, first in own.dead.items() if cable in path), default=since)
            if own.heard and at > max(since, lost):
                names.add(name)
        return names


def _reason(witnesses: tuple[str, ...]) -> str:
    more = f" and {len(witnesses) - MOST_NAMED} more" if len(witnesses) > MOST_NAMED else ""
    return f"packets over it are lost, as the agents of {', '.join(witnesses[:MOST_NAMED])}{more} report"
