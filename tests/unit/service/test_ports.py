"""The service over an enforcer and an observer that are no OpenFlow: the same world, in the same states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.config import Settings
from controller.core.errors import ConflictError
from controller.model.choices.enforcement import DEFAULT_ENFORCEMENT
from controller.model.fabric import Fabric, Switch
from controller.model.files.clos import clos
from controller.model.network_state import NetworkState
from controller.model.switch_key import SwitchKey
from controller.southbound.cabling.survey import survey
from controller.southbound.enforcement.enforcement_task import EnforcementTask
from controller.southbound.enforcement.registry import ENFORCEMENTS, rule_enforcements
from controller.southbound.rules.rule_set import RuleSet
from tests.unit.service.world import ANN, FakeSouthbound, Threads, World, flow
from tests.unit.southbound.cabling.networks import seen
from tests.unit.strategies import with_routers

FABRIC = clos(2, 2, 2)
ROUTERS = with_routers(FABRIC)


@dataclass(frozen=True)
class HostPaths:
    """What hosts would be given: the path and the source port of each of their flows; there are no rules."""

    paths: tuple[tuple[str, str, int, int], ...] = ()
    of_leaf: Mapping[SwitchKey, int] = field(default_factory=dict)

    def size(self, switch: SwitchKey) -> int:
        return self.of_leaf.get(switch, 0)


def compile_paths(task: EnforcementTask) -> HostPaths:
    if task.fabric is None or task.planned is None:
        return HostPaths()
    fabric, traffic, encoding = task.fabric, task.planned.traffic, task.planned.encoding
    rows = zip(*(each.tolist() for each in (encoding.flow, encoding.path, encoding.udp_src)), strict=True)
    names = fabric.host_names
    paths = tuple((names[traffic.src[row]], names[traffic.dst[row]], path, port) for row, path, port in rows)
    leaves = Counter(fabric.leaves[fabric.host_leaf[traffic.src[row]]].key for row in encoding.flow.tolist())
    return HostPaths(paths, leaves)


class HostSide(FakeSouthbound):
    """Sees routers, as routing protocols would show them, and has hosts follow plans."""

    def __init__(self, runtime: Threads, network: NetworkState, settings: Settings = Settings()) -> None:  # noqa: B008
        super().__init__(runtime, network, settings)
        self.compiler = compile_paths
        self.reports = []

    def enforces(self, switch: Switch) -> bool:
        return True


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(["a", "b"]), st.sampled_from(["h1", "h2"])),
        st.tuples(st.just("delete"), st.sampled_from(["a", "b"])),
        st.tuples(st.just("down"), st.sampled_from([None, "leaf1-spine1", "leaf2-spine2", "spine1"])),
        st.tuples(st.just("drain"), st.sampled_from(["leaf1-spine2", "spine2"]), st.booleans()),
        st.tuples(st.just("mode"), st.sampled_from(["planned", "ecmp", "frozen"])),
        st.tuples(st.just("confirm")),
    ),
    max_size=6,
)


def change(world: World, fabric: Fabric, step: tuple[Any, ...]) -> None:
    """Make one change, and wait until the world has it."""
    kind, *rest = step
    if kind == "put":
        world.put(rest[0], [flow(rest[1], "h3"), flow(rest[1], "h4")])
    elif kind == "delete" and world.service.state.desired.job(rest[0]) is not None:
        world.delete(rest[0])
    elif kind == "down":
        now = fabric.without_links([rest[0]] if rest[0] else [])
        world.show(seen(now), lambda state: state.fabric is not None and (state.fabric.link_up == now.link_up).all())
    elif kind == "drain":
        world.service.drain(rest[0], rest[1], ANN)
    elif kind == "mode":
        world.service.set_mode(rest[0], None, ANN)
    elif kind == "confirm":
        world.southbound.reports = [
            SimpleNamespace(
                key=each.key,
                name=each.name,
                epoch=world.service.state.enforced,
                error="",
                missing=(),
                connected=True,
                waits_for=(),
            )
            for each in fabric.switches
        ]
        world.switches_changed()


def shown(world: World) -> dict[str, Any]:
    """What does not depend on who observes and enforces."""
    state, health = world.service.state, world.health
    return {
        "epoch": state.epoch,
        "enforced": state.enforced,
        "compiled": state.compiled is not None,
        "installed": [epoch for _, epoch in world.installed],
        "plan": world.read(lambda service: service.plan()),
        "jobs": world.read(lambda service: service.jobs()),
        "status": health["status"],
        "reasons": health["reasons"],
        "degraded_service": health["degraded_service"],
    }


@settings(max_examples=12, deadline=None)
@given(CHANGES)
def test_the_service_does_the_same_whoever_observes_and_enforces(steps: list[tuple[Any, ...]]) -> None:
    one = World(FABRIC, seen(FABRIC)).planned()
    other = World(ROUTERS, seen(ROUTERS), sides=HostSide).planned()
    try:
        one.southbound.reports = []
        for step in [None, *steps]:
            for world, fabric in ((one, FABRIC), (other, ROUTERS)):
                if step is not None:
                    change(world, fabric, step)
            assert _comparable(shown(one)) == _comparable(shown(other))
        assert all(isinstance(compiled, RuleSet) for compiled, _ in one.installed)
        assert all(isinstance(compiled, HostPaths) for compiled, _ in other.installed)
    finally:
        one.close()
        other.close()


def _comparable(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out times of days, which go on by themselves."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            times = {"computed", "computed_at", "at", "since", "seconds", "changed", "created", "revision"}
            return {key: without(each) for key, each in value.items() if key not in times}
        return [without(each) for each in value] if isinstance(value, list) else value

    cleaned: dict[str, Any] = without(document)
    return cleaned


def test_what_hosts_get_is_the_plan() -> None:
    world = World(ROUTERS, seen(ROUTERS), sides=HostSide).planned()
    world.put("a", [flow("h1", "h3"), flow("h2", "h4")])
    compiled, epoch = world.planned().installed[-1]
    state = world.service.state
    assert epoch == state.epoch
    assert {(src, dst) for src, dst, *_ in compiled.paths} == {("h1", "h3"), ("h2", "h4")}
    assert len({path for _, _, path, _ in compiled.paths}) == 2
    assert compiled.size("leaf1") == 2
    assert compiled.size("leaf2") == 0
    world.close()


def test_in_a_mixed_fabric_no_job_counts_as_enforced() -> None:
    planes = clos(1, 2, 2, planes=2)
    mixed = with_routers(planes, ["leaf3", "leaf4", "spine2"])
    unseen = frozenset(switch.key for switch in mixed.routers)
    whole = seen(mixed)
    network = NetworkState(
        {at: up for at, up in whole.ports.items() if at.switch not in unseen},
        whole.switches - unseen,
        {a: b for a, b in whole.links.items() if a.switch not in unseen},
        unobserved=unseen,
    )
    for fabric, shown_by, enforced in ((planes, seen(planes), True), (mixed, network, False)):
        world = World(fabric, shown_by).planned()
        world.put("a", [flow("h1", "h3")])
        world.southbound.reports = [
            SimpleNamespace(
                key=each.key,
                name=each.name,
                epoch=world.service.state.enforced,
                error="",
                missing=(),
                connected=True,
                waits_for=(),
            )
            for each in fabric.switches
            if each.kind == "openflow"
        ]
        world.switches_changed()
        (job,) = world.read(lambda service: service.jobs())["jobs"]
        assert job["active"] is enforced
        assert (job["speed"] is not None) is enforced
        assert world.health["status"] == "ok"
        assert world.health["reasons"] == []
        assert bool(world.health["degraded_service"]) is not enforced
        assert world.read(lambda service: service.plan())["waits_for"] == []
        links = world.read(lambda service: service.links())["links"]
        assert all(row["known"] for row in links) is enforced
        world.close()


def test_nobody_waits_for_switches_that_nothing_enforces_at_nor_takes_their_rules_as_confirmed() -> None:
    unobserved = NetworkState(unobserved=frozenset(switch.key for switch in ROUTERS.switches))
    world = World(ROUTERS, unobserved)
    world.southbound.reports = []
    world.planned().put("a", [flow("h1", "h3")])
    health = world.health
    assert health["status"] == "ok"
    assert health["reasons"] == []
    assert health["switches"] == {"connected": 0, "expected": 0}
    assert health["degraded_service"] == [
        "leaf1, leaf2, spine1, spine2 are not OpenFlow switches: fairspine does not change them; no plan is known to "
        "hold there, so the speeds of jobs are not known"
    ]
    assert not world.service._reconciler.installation.confirmed(world.service.state)
    plan = world.read(lambda service: service.plan())
    assert plan["active"] is None
    assert world.installed[-1][0] == RuleSet()
    rows = world.read(lambda service: service.fabric())["switches"]
    assert [(row["kind"], row["connected"], "dpid" in row) for row in rows] == [("router", False, False)] * 4
    assert world.read(lambda service: service.drain("spine1", True, ANN))["still_used"] == [
        "leaf1-spine1",
        "leaf2-spine1",
    ]
    world.close()


def test_an_enforcement_by_switches_is_refused_where_all_are_routers() -> None:
    world = World(ROUTERS, NetworkState(unobserved=frozenset(switch.key for switch in ROUTERS.switches)))
    world.planned()
    static = {name for name in rule_enforcements() if ENFORCEMENTS[name].router_export}
    for name in {*rule_enforcements()} - static - {DEFAULT_ENFORCEMENT}:
        with pytest.raises(ConflictError, match=f"{name} enforcement: OpenFlow switches carry out its plans"):
            world.service.set_mode(None, name, ANN)
    assert world.service.state.desired.enforcement == DEFAULT_ENFORCEMENT
    for name in static:
        world.service.set_mode(None, name, ANN)
        assert world.service.state.desired.enforcement == name
        assert world.read(lambda service: service.plan())["active"] is None
    world.close()


@given(st.data())
def test_what_agents_show_of_cables_is_their_state_whatever_it_was_before(data: st.DataObject) -> None:
    numbers = st.sampled_from(range(len(ROUTERS.cables)))
    unobserved = frozenset(switch.key for switch in ROUTERS.switches)
    before, shown = ROUTERS, dict[int, str]()
    for _ in range(3):
        was_up = [cable.up for cable in before.cables]
        shown = data.draw(st.dictionaries(numbers, st.sampled_from(["", "packets are lost"])))
        passed = frozenset(data.draw(st.sets(numbers))) - shown.keys()
        observed = NetworkState(unobserved=unobserved, shown_cables=shown, passed_cables=passed)
        after = survey(ROUTERS, observed, before=before)
        assert after.fabric is not None
        assert [cable.up for cable in after.fabric.cables] == [
            not shown[number] if number in shown else up or number in passed for number, up in enumerate(was_up)
        ]
        assert {finding.text for finding in after.findings} == {
            f"{ROUTERS.cable_names[number]} is down: {reason}" for number, reason in shown.items() if reason
        }
        before = after.fabric
