"""Random faults. Pure: a draw depends on the random generator and the state only, so a campaign can be repeated."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from controller.model.fabric import Fabric
from controller.model.paths.plane_places import plane_names
from controller.southbound.enforcement.registry import rule_enforcements
from tests.campaigns.faults.state import FaultState

MOST_OFF = 2
"""Switches without power at a time, and ..."""
MOST_DOWN = 4
"""... cables that are down: with more failures there is little left to check."""
MOST_JOBS = 3
LONGEST_PAUSE = 4.5
"""Seconds. Three echoes a second apart without an answer end a connection: pauses are shorter and longer than that."""

LONGEST_STORE_FAILURE = 6.0
"""Seconds. A change waits up to 5 s for the store."""

NAMES = ("alpha", "beta", "gamma")

BAD_REQUESTS: tuple[tuple[str, str, object], ...] = (
    ("PUT", "/v1/jobs/bad", b"{"),
    ("PUT", "/v1/jobs/bad", {"flows": [{"src": "h1", "dst": "nobody", "bytes": 1}]}),
    ("PUT", "/v1/jobs/bad", {"flows": [{"src": "h1", "dst": "h1", "bytes": 1}]}),
    ("PUT", "/v1/jobs/bad", {"hosts": ["h1", "h2"], "colectives": []}),
    ("PUT", "/v1/jobs/bad%20name", {"flows": []}),
    ("DELETE", "/v1/jobs/nobody", None),
    ("PUT", "/v1/fabric/links/nowhere", {"drained": True}),
    ("PUT", "/v1/fabric/links/spine1", {"drained": "perhaps"}),
    ("PUT", "/v1/mode", {"mode": "sideways"}),
    ("PUT", "/v1/mode", {"enforcement": "by force"}),
    ("GET", "/v1/routes?host=nobody", None),
    ("PATCH", "/v1/plan", None),
)
"""Method, target and body of requests that have to be refused and change nothing."""


@dataclass(frozen=True)
class Fault:
    """One fault: its kind, its subject, and a value if the kind needs one."""

    kind: str
    subject: str = ""
    value: Any = None

    def __str__(self) -> str:
        """Return the kind, the subject and a duration as text."""
        text = f"{self.kind} {self.subject}".strip()
        if isinstance(self.value, float):
            return f"{text} ({self.value:g} s)"
        return f"{text} (number {self.value})" if isinstance(self.value, int) else text


def draw(rng: random.Random, state: FaultState) -> Fault:
    """Draw the next fault. Repairs are about as frequent as failures."""
    while True:
        (kind,) = rng.choices(list(_WEIGHTS), weights=list(_WEIGHTS.values()))
        fault = _DRAW[kind](rng, state)
        if fault is not None:
            return fault


def _cable(rng: random.Random, state: FaultState) -> Fault | None:
    if state.down and rng.random() < len(state.down) / MOST_DOWN:
        return _mended(rng.choice(sorted(state.down)), state)
    cables = [name for name in state.healthy.cable_names if name not in state.down]
    how = rng.choice(("both ends", "lower end", "upper end", "by OpenFlow"))
    return Fault(f"cable down, {how}", rng.choice(cables)) if len(state.down) < MOST_DOWN else None


def _mended(name: str, state: FaultState) -> Fault | None:
    """Return the repair of a cable; ``None`` for a host link of a leaf without power, which cannot be observed."""
    hosts = {f"{host.name}-{host.leaf}": host.leaf for host in state.healthy.hosts}
    return None if hosts.get(name) in state.off else Fault("cable up", name)


def _host_link(rng: random.Random, state: FaultState) -> Fault | None:
    host = rng.choice(state.healthy.hosts)
    name = f"{host.name}-{host.leaf}"
    if name in state.down:
        return _mended(name, state)
    if host.leaf in state.off:
        return None  # nobody could know
    return Fault("cable down, both ends", name) if len(state.down) < MOST_DOWN else None


def _power(rng: random.Random, state: FaultState) -> Fault | None:
    if state.off and rng.random() < len(state.off) / MOST_OFF:
        return Fault("switch on", rng.choice(sorted(state.off)))
    return Fault("switch off", _switch(rng, state)) if len(state.off) < MOST_OFF else None


def _restart(rng: random.Random, state: FaultState) -> Fault | None:
    return Fault("switch restarts", _switch(rng, state))


def _all_restart(rng: random.Random, state: FaultState) -> Fault | None:
    return Fault("all switches restart")


def _switch(rng: random.Random, state: FaultState) -> str:
    """Draw a switch that has power, more often one above the leaves, since a leaf disconnects its hosts."""
    upper = [name for name in _above_leaves(state.healthy) if name not in state.off]
    leaves = [leaf.name for leaf in state.healthy.leaves if leaf.name not in state.off]
    return rng.choice(upper if upper and rng.random() < 2 / 3 else leaves)


def _controller(rng: random.Random, state: FaultState) -> Fault | None:
    return Fault("controller killed")


def _pause(rng: random.Random, state: FaultState) -> Fault | None:
    return Fault("switches stand still", value=round(rng.uniform(0.2, LONGEST_PAUSE), 1))


def _job(rng: random.Random, state: FaultState) -> Fault | None:
    name = rng.choice(NAMES)
    if name in state.jobs and rng.random() < len(state.jobs) / (MOST_JOBS + 1):
        return Fault("job deleted", name)
    return Fault("job pushed", name, _document(rng, state.healthy))


def _document(rng: random.Random, fabric: Fabric) -> dict[str, Any]:
    """Draw a job: a collective over some NICs, or single flows."""
    hosts = rng.sample(list(fabric.nic_names), rng.randint(2, min(8, len(fabric.nic_names))))
    size = rng.randint(1, 10) * 10**8
    op = rng.choice(("all_reduce", "all_to_all", "flows"))
    if op == "flows":
        pairs = [(a, b) for a in hosts for b in hosts if a != b]
        chosen = rng.sample(pairs, min(len(pairs), 6))
        return {"flows": [{"src": a, "dst": b, "bytes": size, "collective": "some"} for a, b in chosen]}
    ranks = list(range(min(len(hosts), 4 if op == "all_to_all" else len(hosts))))
    return {
        "hosts": hosts,
        "qps": rng.choice((1, 1, 2, 3)),
        "weight": rng.choice((1.0, 2.0)),
        "collectives": [{"name": "all", "op": op, "ranks": ranks, "bytes": size}],
    }


def _bad_request(rng: random.Random, state: FaultState) -> Fault | None:
    method, target, body = rng.choice(BAD_REQUESTS)
    return Fault("bad request", f"{method} {target}", body)


def _drain(rng: random.Random, state: FaultState) -> Fault | None:
    if state.drained and rng.random() < len(state.drained) / 3:
        return Fault("undrained", rng.choice(sorted(state.drained)))
    fabric = state.healthy
    parts = {*fabric.cable_names, *_above_leaves(fabric), *fabric.pod_names}
    if fabric.planes.count > 1:
        parts.update(plane_names(fabric), fabric.leaf_index)
    rest = sorted(parts - state.drained)
    return Fault("drained", rng.choice(rest))


def _above_leaves(fabric: Fabric) -> list[str]:
    return [switch.name for layer in fabric.layers[1:] for switch in layer]


def _ecmp(rng: random.Random, state: FaultState) -> Fault | None:
    return Fault("mode", "ecmp") if state.mode == "planned" else None


def _frozen(rng: random.Random, state: FaultState) -> Fault | None:
    """Freeze a network that is right: otherwise it is not known which rules the switches keep."""
    return Fault("mode", "frozen") if state.mode == "planned" and state.settled else None


def _planned(rng: random.Random, state: FaultState) -> Fault | None:
    return Fault("mode", "planned") if state.mode != "planned" else None


def _drift(rng: random.Random, state: FaultState) -> Fault | None:
    """Change a rule or a group of each switch in turn: one that is changed often is repaired once a minute only."""
    names = [switch.name for switch in state.healthy.switches]
    name = names[state.drifts % len(names)]
    how = rng.choice(("rule deleted", "rule changed", "group deleted"))
    return Fault(f"drift, {how}", name, rng.randrange(1000)) if name not in state.off else None


def _store(rng: random.Random, state: FaultState) -> Fault | None:
    return Fault("store fails", value=round(rng.uniform(0.5, LONGEST_STORE_FAILURE), 1))


def _enforcement(rng: random.Random, state: FaultState) -> Fault | None:
    return Fault("enforcement", rng.choice([name for name in rule_enforcements() if name != state.enforcement]))


_WEIGHTS = {
    "cable": 6,
    "host link": 1,
    "power": 3,
    "restart": 2,
    "all restart": 1,
    "controller": 2,
    "pause": 2,
    "job": 5,
    "bad request": 2,
    "drain": 3,
    "ecmp": 1,
    "frozen": 2,
    "planned": 10,
    "enforcement": 2,
    "drift": 3,
    "store": 2,
}

_DRAW: dict[str, Callable[[random.Random, FaultState], Fault | None]] = {
    "cable": _cable,
    "host link": _host_link,
    "power": _power,
    "restart": _restart,
    "all restart": _all_restart,
    "controller": _controller,
    "pause": _pause,
    "job": _job,
    "bad request": _bad_request,
    "drain": _drain,
    "ecmp": _ecmp,
    "frozen": _frozen,
    "planned": _planned,
    "enforcement": _enforcement,
    "drift": _drift,
    "store": _store,
}
