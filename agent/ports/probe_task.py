"""The task of a host that probes: the paths to other hosts for which it needs source ports.

Paths are numbers, and routers names: the host needs no knowledge of the fabric. ``ProbeRoutes`` says which routers
answer probes that take a path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from typing import Any, NamedTuple

from agent.fields import converted, member
from agent.plans.flow_keys import Address
from controller.model.errors import InputError

MOST_PORT, MOST_HOPS = 0xFFFF, 255
MOST_AT_ONCE, MOST_RATE = 10_000, 1e6

Answers = tuple[str, ...]
"""Names of the routers that answer the probes of one port, by hop limit; the address in place of an unknown name."""


@dataclass(frozen=True)
class ProbeRoutes:
    """How probes show which path between two leaves packets take.

    Attributes:
        hops: hop limits of the probes of one port, ascending.
        paths: the path of which these routers answer.
    """

    hops: tuple[int, ...]
    paths: Mapping[Answers, int]

    @cached_property
    def numbers(self) -> frozenset[int]:
        """The numbers of the paths."""
        return frozenset(self.paths.values())

    def next_routers(self, answers: Answers) -> frozenset[str]:
        """Return the routers that may answer a probe behind these answers."""
        return self._next[answers]

    @cached_property
    def _next(self) -> dict[Answers, frozenset[str]]:
        following: dict[Answers, set[str]] = defaultdict(set)
        for answers in self.paths:
            for n, router in enumerate(answers):
                following[answers[:n]].add(router)
        return {answers: frozenset(routers) for answers, routers in following.items()}


@dataclass(frozen=True)
class ProbedPair:
    """A destination, the routes to it, and how many ports each path is to have.

    ``known``: paths that ports had when they were probed before, which is checked first. ``map``: names the state of
    the fabric in which ports have their paths, and is reported with them; empty: none was given.
    """

    dst: Address
    routes: ProbeRoutes
    wanted: Mapping[int, int]
    known: Mapping[int, int]
    map: str = ""


class AnswerBudget(NamedTuple):
    """How many probes a router is made to answer: so many at once, and then so many a second.

    ``share``: those a second of what a router answers to all hosts together, at first (``answer_budgets.py``).
    """

    burst: int
    a_second: float
    share: float = float("inf")


@dataclass(frozen=True)
class ProbeTask:
    """All that a host is asked to probe.

    Attributes:
        host: name of the host.
        source: address from which its flows come.
        first_port: the lowest source port that may be used; ``last_port``: the highest.
        dst_port: of the flows.
        routers: names of routers by the addresses from which they answer.
        budget: of each router.
        pairs: the destinations.
        given: just the known ports are probed, each of them: there are to be no others.
    """

    host: str
    source: Address
    first_port: int
    last_port: int
    dst_port: int
    routers: Mapping[Address, str]
    budget: AnswerBudget
    pairs: tuple[ProbedPair, ...]
    given: bool = False


def read_task(document: Any) -> ProbeTask:
    """Return the task in a document of the controller.

    Raises:
        InputError: a field is missing or wrong.
    """
    host, source = member(document, "", "host", str), _address(document, "", "source")
    first, last = (_number(document, "", name, 1, MOST_PORT) for name in ("first_port", "last_port"))
    if last < first:
        raise InputError(f"is below first_port, {first}", field="last_port", value=last)
    routers: dict[Address, str] = {}
    for n, row in enumerate(member(document, "", "routers", list)):
        name = member(row, f"routers[{n}].", "name", str)
        for k, text in enumerate(member(row, f"routers[{n}].", "addresses", list)):
            routers[_text_address(text, f"routers[{n}].addresses[{k}]")] = name
    known = frozenset(routers.values())
    routes = [_routes(row, f"routes[{n}].", known) for n, row in enumerate(member(document, "", "routes", list))]
    pairs = [
        _pair(row, f"pairs[{n}].", routes, (first, last)) for n, row in enumerate(member(document, "", "pairs", list))
    ]
    for n, pair in enumerate(pairs):
        if pair.dst.version != source.version:
            reason = f"is of another version of IP than {source}"
            raise InputError(reason, field=f"pairs[{n}].dst", value=str(pair.dst))
    if len({pair.dst for pair in pairs}) < len(pairs):
        raise InputError("has a destination twice", field="pairs")
    return ProbeTask(
        host,
        source,
        first,
        last,
        _number(document, "", "dst_port", 1, MOST_PORT),
        routers,
        _budget(member(document, "", "budget", dict)),
        tuple(pairs),
        document.get("given") is True,
    )


def _budget(row: dict[str, Any]) -> AnswerBudget:
    burst = _number(row, "budget.", "burst", 1, MOST_AT_ONCE)
    if "share" not in row:
        return AnswerBudget(burst, _rate(row, "a_second"))
    return AnswerBudget(burst, _rate(row, "a_second"), _rate(row, "share"))


def _rate(row: dict[str, Any], name: str) -> float:
    rate = row.get(name)
    if not isinstance(rate, int | float) or isinstance(rate, bool) or not 0 < rate <= MOST_RATE:
        raise InputError("is no number of answers a second", field=f"budget.{name}", value=rate)
    return float(rate)


def _routes(row: Any, where: str, known: frozenset[str]) -> ProbeRoutes:
    hops = member(row, where, "hops", list)
    if not hops or hops != sorted(set(hops)) or not all(type(hop) is int and 0 < hop <= MOST_HOPS for hop in hops):
        raise InputError("are no hop limits that ascend", field=f"{where}hops", value=hops)
    paths: dict[Answers, int] = {}
    for n, each in enumerate(member(row, where, "paths", list)):
        at = f"{where}paths[{n}]."
        answers = tuple(member(each, at, "routers", list))
        if len(answers) != len(hops) or not known.issuperset(answers):
            raise InputError("names no router for each hop limit", field=f"{at}routers", value=[*answers])
        if answers in paths:
            raise InputError("are those of another path, too", field=f"{at}routers", value=[*answers])
        paths[answers] = _number(each, at, "path", 0, 1 << 31)
    return ProbeRoutes(tuple(hops), paths)


def _pair(row: Any, where: str, routes: list[ProbeRoutes], ports: tuple[int, int]) -> ProbedPair:
    of = routes[_number(row, where, "routes", 0, len(routes) - 1)]
    wanted = {}
    for n, each in enumerate(member(row, where, "wanted", list)):
        wanted[_path(each, f"{where}wanted[{n}].", of)] = _number(each, f"{where}wanted[{n}].", "ports", 1, MOST_PORT)
    known = {}
    for n, each in enumerate(member(row, where, "known", list) if "known" in row else ()):
        at = f"{where}known[{n}]."
        known[_number(each, at, "port", *ports)] = _path(each, at, of)
    name = member(row, where, "map", str) if "map" in row else ""
    return ProbedPair(_address(row, where, "dst"), of, wanted, known, name)


def _path(row: Any, where: str, of: ProbeRoutes) -> int:
    path = _number(row, where, "path", 0, 1 << 31)
    if path not in of.numbers:
        raise InputError("is no path of these routes", field=f"{where}path", value=path)
    return path


def _number(row: Any, where: str, name: str, least: int, most: int) -> int:
    value = member(row, where, name, int)
    if not least <= value <= most:
        raise InputError(f"is not from {least} to {most}", field=where + name, value=value)
    return value


def _address(row: Any, where: str, name: str) -> Address:
    return _text_address(member(row, where, name, str), where + name)


def _text_address(text: Any, field: str) -> Address:
    if not isinstance(text, str):
        raise InputError("has the wrong type", field=field, value=text)
    return converted(ip_address, text, field, "an IP address")
