"""A controller that lives through operations and restarts."""

from __future__ import annotations

import dataclasses
import json
from contextlib import nullcontext, suppress
from typing import Any

from hypothesis import strategies as st

from controller.core.errors import ConflictError
from controller.core.ports.api import UNCONDITIONAL
from controller.model.errors import InputError, NotFoundError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.rest import schemas
from controller.southbound.enforcement.registry import rule_enforcements
from controller.southbound.rules.rule_set import RuleSet, difference
from tests.unit.service.world import ANN, FakeStore, World, flow
from tests.unit.southbound.cabling.networks import seen

FABRIC = clos(3, 3, 2)
HOSTS = [host.name for host in FABRIC.hosts]
IDS = [*FABRIC.cable_names, *FABRIC.leaf_index, *FABRIC.spine_index]
Operation = tuple[str, Any]
FLOWS = st.lists(
    st.builds(flow, st.sampled_from(HOSTS), st.sampled_from(HOSTS), st.sampled_from([1, 10**6, 10**9])).filter(
        lambda one: one["src"] != one["dst"]
    ),
    max_size=6,
)


def _asks_no_contrary(form: dict[str, Any]) -> bool:
    """Return whether a preview drains and undrains no cable at once."""
    return not {*form.get("drain", ())} & {*form.get("undrain", ())}


OPERATIONS = st.one_of(
    st.tuples(st.just("put"), st.tuples(st.sampled_from("abc"), FLOWS, st.booleans())),
    st.tuples(st.just("delete"), st.sampled_from("abc")),
    st.tuples(st.just("drain"), st.tuples(st.sampled_from(IDS), st.booleans())),
    st.tuples(st.just("mode"), st.sampled_from(["planned", "ecmp", "frozen"])),
    st.tuples(st.just("enforcement"), st.sampled_from(rule_enforcements())),
    st.tuples(st.just("links"), st.sets(st.sampled_from(FABRIC.cable_names), max_size=3)),
    st.tuples(st.just("rollback"), st.integers(0, 5)),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(
        st.just("preview"),
        st.fixed_dictionaries(
            {},
            optional={
                "put": st.builds(lambda flows: [{"name": "d", "flows": flows}], FLOWS),
                "delete": st.lists(st.sampled_from("abc"), max_size=1),
                "drain": st.lists(st.sampled_from(IDS), max_size=2, unique=True),
                "undrain": st.lists(st.sampled_from(IDS), max_size=2, unique=True),
                "policy": st.sampled_from(["greedy", "ecmp", "fair"]),
                "mode": st.sampled_from(["planned", "ecmp", "frozen"]),
            },
        ).filter(_asks_no_contrary),
    ),
)


def rules_equal(one: RuleSet, other: RuleSet) -> bool:
    """Whether no switch would be sent anything."""
    dpids = one.switches.keys() | other.switches.keys()
    return not any(difference(one[dpid], other[dpid]) for dpid in dpids)


class Life:
    """A controller through operations and restarts, always on a network that is as ``down`` says."""

    def __init__(self, policy: str = "fair") -> None:
        self.down: set[str] = set()
        self.policy = policy
        self.store = FakeStore()
        self.world = self.started()

    @property
    def fabric(self) -> Fabric:
        return FABRIC.without_links(self.down)

    def started(self) -> World:
        world = World(FABRIC, seen(self.fabric), self.store, policy=self.policy)
        return world.planned()

    def do(self, operation: Operation) -> None:
        kind, what = operation
        service = self.world.service
        if kind == "put":
            name, flows, unknown = what
            document = {"flows": flows} | ({"ports": "unknown"} if unknown else {})
            with suppress(InputError) if unknown and service.state.desired.chooses_ports else nullcontext():
                service.put_job(name, json.dumps(document).encode(), UNCONDITIONAL, ANN)
        elif kind == "delete" and service.state.desired.job(what) is not None:
            service.delete_job(what, UNCONDITIONAL, ANN)
        elif kind == "drain":
            service.drain(what[0], what[1], ANN)
        elif kind == "mode":
            service.set_mode(what, None, ANN)
        elif kind == "enforcement":
            with suppress(ConflictError):
                service.set_mode(None, what, ANN)
        elif kind == "links":
            self.down = what
            self.world.show(seen(self.fabric), lambda state: state.fabric is not None and state.fabric == self.fabric)
        elif kind == "rollback" and service.state.desired.mode != "frozen":
            self.world.settle()
            epochs = sorted(epoch for epoch, record in self.store.records.items() if record.paths is not None)
            service.rollback(epochs[what % len(epochs)], ANN)
        elif kind == "preview":
            self.preview(what)
        elif kind == "restart":
            self.restart()

    def preview(self, form: dict[str, Any]) -> None:
        """Whatever it says, nothing is different afterwards."""
        self.world.settle()
        state, desired, kept = self.world.service.state, self.world.service.state.desired, self.store.load()
        installed, records = list(self.world.installed), dict(self.store.records)
        with suppress(NotFoundError):
            answer = self.world.service.preview(json.dumps(form).encode())
            assert not isinstance(answer, bytes)
            assert schemas.PreviewDocument.model_validate(dict(answer)).epoch == state.epoch
        # A state for an earlier change of the network may follow meanwhile; it tells of no change of its own.
        now = self.world.service.state
        assert (dataclasses.replace(now, changes=()), now.desired) == (dataclasses.replace(state, changes=()), desired)
        assert (self.store.load().drained, self.store.load().mode) == (kept.drained, kept.mode)
        assert (self.world.installed, self.store.records) == (installed, records)

    def restart(self) -> None:
        self.world.settle()
        self.world.close()
        self.world = self.started()


def routes_of(world: World, host: str) -> Any:
    return world.read(lambda service: service.routes(host))["flows"]


def told(world: World) -> dict[str, Any]:
    """What does not depend on when it was asked."""
    service = world.service
    desired, fabric = service.state.desired, service.state.last_known_fabric
    assert fabric is not None
    plan = world.read(lambda service: service.plan())["plan"]
    return {
        "jobs": [(job.name, job.revision, job.position, job.by, job.ports.tolist()) for job in desired.jobs],
        "drained": desired.drained,
        "mode": (desired.mode, desired.enforcement),
        "routes": {name: routes_of(world, name) for name in sorted(fabric.host_names)},
        "paths": {row["id"]: row["paths"] for row in plan["flows"]},
        "levels": plan["levels"],
        "gap": plan["gap"],
        "still_used": service.state.drain.still_used,
    }
