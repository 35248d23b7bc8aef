"""Check of the state after faults: the controller's answers, the switches' rules, and the paths of packets."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

from controller.planning.drain import drained_cables
from emulation.lab import Lab
from tests.campaigns import rule_text
from tests.campaigns.faults import expected
from tests.campaigns.faults.probes import Probes
from tests.campaigns.faults.state import ExpectedPiece, FaultState
from tests.campaigns.faults.world import Broken


class CheckedLab(Protocol):
    """What is checked: a lab, the state that it should be in, and the controller of it."""

    @property
    def lab(self) -> Lab:
        """The running lab."""
        ...

    @property
    def state(self) -> FaultState:
        """The state that the controller should have found."""
        ...

    def get(self, target: str) -> Any:
        """Return the body of the controller's answer; raise ``Broken`` if there is none."""
        ...

    def check_alive(self) -> None:
        """Raise ``LabError`` if the controller or the switches have ended by themselves."""
        ...


SHOWN = 6
"""Largest number of differences of one kind in a message; the rest are counted."""


def settled(world: CheckedLab) -> tuple[ExpectedPiece, ...]:
    """Return the hosts' routes if controller and switches agree with the state of the fabric.

    Raises:
        Broken: they do not agree (yet); names the differences.
    """
    world.check_alive()
    plan = world.get("/v1/plan")
    frozen = world.state.mode == "frozen"
    # In mode frozen a plan may wait.
    if plan["active"] is None or (plan["active"]["epoch"] != plan["computed"]["epoch"] and not frozen):
        raise Broken(f"plan {plan['computed']['epoch']} is not active: {world.get('/healthz')['reasons']}")
    if plan["mode"] != world.state.mode:
        raise Broken(f"the mode is {plan['mode']}, not {world.state.mode}")
    wrong = list(_links(world))
    said = expected.told(world.get(f"/v1/routes?host={host.name}") for host in world.state.healthy.hosts)
    if world.state.mode == "planned":
        wrong += expected.mistakes(world.state, said)
    _raise("the controller", wrong)
    rules = expected.rules(world.state, said.pieces)
    dpids = {switch.name: switch.dpid for switch in world.state.healthy.switches}
    for switch in world.state.switches:
        want = rules[dpids[switch]]
        _compare(switch, rule_text.wanted(want), rule_text.held(world.lab, switch))
        _compare(switch, rule_text.wanted_groups(want), rule_text.held_groups(world.lab, switch))
    return said.pieces


def _links(world: CheckedLab) -> Iterator[str]:
    """Yield the links whose state the controller has wrong, except between switches without power."""
    off = world.state.off
    fabric = world.state.fabric
    seen = {link["id"]: link for link in world.get("/v1/fabric")["links"]}
    drains = drained_cables(fabric, world.state.drained).tolist()
    for name, cable, drained in zip(fabric.cable_names, fabric.cables, drains, strict=True):
        if {cable.lower, cable.upper} <= off:
            continue
        if seen[name]["up"] != cable.up:
            yield f"{name} is {'up' if cable.up else 'down'}, but the controller reports otherwise"
        if seen[name]["drained"] != drained:
            yield f"{name} is {'' if drained else 'not '}drained, but the controller reports otherwise"


def _compare(switch: str, want: AbstractSet[tuple[object, ...]], held: AbstractSet[tuple[object, ...]]) -> None:
    wrong = [f"missing {_words(entry)}" for entry in want - held]
    _raise(switch, wrong + [f"unexpected {_words(entry)}" for entry in held - want])


def _words(entry: Sequence[object]) -> str:
    return " ".join(",".join(sorted(part)) if isinstance(part, frozenset) else str(part) for part in entry)


def reaches(world: CheckedLab) -> None:
    """Every host that the graph joins to another gets an answer from it; not promised in mode ``frozen``.

    Raises:
        Broken: some do not.
    """
    if world.state.mode == "frozen":
        return
    lost = world.lab.ping_all(world.state.reachable, timeout=0.5)
    _raise("no ping", [f"{a} to {b}" for a, b in lost])


def carried(world: CheckedLab, probes: Probes, pieces: Sequence[ExpectedPiece], rng: random.Random) -> None:
    """Packets of all planned flows take the planned links; not promised in mode ``frozen``.

    Raises:
        Broken: some do not.
    """
    if world.state.mode == "frozen":
        return
    reachable = set(world.state.reachable)
    sent = [piece for piece in pieces if (piece.src, piece.dst) in reachable]
    _raise("planned flows", probes.check(sent, world.state.switches, rng))


def _raise(what: str, wrong: Sequence[str]) -> None:
    if wrong:
        more = f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise Broken(f"{what}: {'; '.join(sorted(wrong)[:SHOWN])}{more}")
