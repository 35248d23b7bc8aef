"""Which cables work, by the routes that routers tell: which segment ids each of them still reaches directly.

A router reaches an id of a neighbour directly if its path to it has two AS numbers: its own, and that of the neighbour.
Then a BGP session between them stands, over the cable that this id means (``bgp_configuration``). A router that has no
such path any more has lost the session, because the cable is down, or a daemon. A path of two other AS numbers says
nothing: numbers here differ from those of the routers, or another router announces this id. This is told for people.

Routers are believed as to their own cables only. A cable is down if one of its ends says so, so a router that lies can
take its own cables down, which it can in other ways, too. It cannot hide that one is down from the other end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Network
from itertools import groupby

from controller.southbound.srv6.segment_ids import IdRange, SegmentIds

SETTLE_SECONDS = 5.0
"""After the begin of a session, routes are still to come: until then, what a router does not reach says nothing."""

Route = tuple[str, IPv6Network]
"""A router, and a prefix to which it may have a path."""


@dataclass(frozen=True)
class CableSign:
    """What routers show of a cable.

    Attributes:
        up: whether it works.
        reaching: routers at its ends that reach the other end directly.
        lacking: those that do not.
        since: when ``up`` became so.
    """

    up: bool
    reaching: tuple[str, ...]
    lacking: tuple[str, ...]
    since: float


@dataclass
class _Session:
    """A session with a router.

    Attributes:
        since: when it began.
        settled: all that the router reached at the begin was told.
        reached: the router has reached a neighbour directly. One that never did so is likely to withhold ids.
    """

    since: float
    settled: bool = False
    reached: bool = False


class RouterReach:
    """The routes of routers, as far as they say something of cables. Times are seconds of one clock."""

    def __init__(self, ids: SegmentIds, asns: Mapping[str, int]) -> None:
        """Begin without sessions.

        Args:
            ids: the ids of the fabric.
            asns: AS numbers by router; cables to others are not judged.
        """
        fabric = ids.fabric
        self._ends: list[tuple[Route, Route] | None] = []
        self._cables: dict[Route, int] = {}
        self._cables_of: dict[str, list[int]] = defaultdict(list)
        self._direct_path: dict[Route, tuple[int, int]] = {}
        columns = fabric.cable_tier, fabric.cable_lower, fabric.cable_upper, fabric.cable_number
        for cable, (tier, lower, upper, number) in enumerate(zip(*(each.tolist() for each in columns), strict=True)):
            below, above = fabric.layers[tier][lower].name, fabric.layers[tier + 1][upper].name
            if below not in asns or above not in asns:
                self._ends.append(None)
                continue
            up = below, ids.prefix(IdRange(ids.over_cable(tier + 1, upper, number)))
            down = above, ids.prefix(IdRange(ids.over_cable(tier, lower, number)))
            self._ends.append((up, down))
            for route, path in ((up, (asns[below], asns[above])), (down, (asns[above], asns[below]))):
                self._cables[route], self._direct_path[route] = cable, path
                self._cables_of[route[0]].append(cable)
        self._sessions: dict[str, _Session] = {}
        self._direct: dict[Route, bool] = {}
        self._foreign: dict[Route, tuple[int, ...]] = {}
        self._signs: dict[int, CableSign] = {}
        self.version = 0
        """Grows whenever ``signs`` becomes another one."""

    @property
    def signs(self) -> Mapping[int, CableSign]:
        """What is known of cables, by number; others are unknown."""
        return self._signs

    @property
    def foreign(self) -> list[str]:
        """Paths of two AS numbers that are not those of a router and its neighbour, for people."""
        return [
            f"{router} reaches {prefix} by AS {_text(path)} and not {_text(self._direct_path[router, prefix])}"
            for (router, prefix), path in self._foreign.items()
        ]

    def began(self, router: str, now: float) -> None:
        """Begin with a session, in which all that the router reaches will be told."""
        self.ended(router, now)
        self._sessions[router] = _Session(now)

    def ended(self, router: str, now: float) -> None:
        """Forget what a router has told."""
        self._sessions.pop(router, None)
        for cable in self._cables_of.get(router, ()):
            for route in self._ends[cable] or ():
                if route[0] == router:
                    self._direct.pop(route, None)
                    self._foreign.pop(route, None)
        self._judge(router, now)

    def takes(self, router: str, prefix: IPv6Network, path: tuple[int, ...], now: float) -> None:
        """Take the path of a router to a prefix: AS numbers, its own first; empty: it has none any more."""
        route = router, prefix
        cable, session = self._cables.get(route), self._sessions.get(router)
        if cable is None or session is None:
            return
        # An AS may be several times in a row in a path, to make it longer.
        short = tuple(number for number, _ in groupby(path))
        direct = short == self._direct_path[route]
        first, session.reached = direct and not session.reached, session.reached or direct
        self._foreign.pop(route, None)
        if len(short) <= 2 and short and not direct:
            self._foreign[route] = short
            self._direct.pop(route, None)
        elif direct or route in self._direct:
            self._direct[route] = direct
        if first:
            self._judge(router, now)
        else:
            self._judge_cable(cable, now)

    def look(self, now: float) -> None:
        """Count what routers do not reach, once their sessions have lasted long enough."""
        for router, session in self._sessions.items():
            if not session.settled and now - session.since >= SETTLE_SECONDS:
                session.settled = True
                self._judge(router, now)

    def _judge(self, router: str, now: float) -> None:
        for cable in self._cables_of.get(router, ()):
            self._judge_cable(cable, now)

    def _judge_cable(self, cable: int, now: float) -> None:
        reaching: list[str] = []
        lacking: list[str] = []
        for route in self._ends[cable] or ():
            direct = self._reaches(route)
            if direct is not None:
                (reaching if direct else lacking).append(route[0])
        before = self._signs.get(cable)
        if reaching or lacking:
            up = not lacking
            since = before.since if before is not None and before.up == up else now
            self._signs[cable] = CableSign(up, tuple(reaching), tuple(lacking), since)
        else:
            self._signs.pop(cable, None)
        self.version += self._signs.get(cable) != before

    def _reaches(self, route: Route) -> bool | None:
        """Return whether a router reaches an id directly; ``None``: it is not known."""
        session = self._sessions.get(route[0])
        if session is None:
            return None
        known = self._direct.get(route)
        if known is None and session.settled and session.reached and route not in self._foreign:
            return False
        return known


def _text(path: tuple[int, ...]) -> str:
    return " ".join(map(str, path))
