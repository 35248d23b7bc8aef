"""Plans on remembered paths, what plans depend on, and headroom."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.assignment import UNROUTABLE
from controller.model.fabric import Cable, Fabric, Host
from controller.model.plan import Bound
from controller.model.queue_pairs import QueuePairs
from controller.model.traffic import Traffic
from controller.planning.headroom import with_headroom
from controller.planning.kept_paths import moved_flows, plan_from_paths
from controller.planning.make_plan import make_plan
from controller.planning.plan_inputs import fabric_hash, traffic_hash
from controller.planning.plane_drain import PortsAside
from controller.routing import PreviousPlan
from controller.routing.validate import validate_assignment
from tests.unit.routing.instances import instances, random_fabric
from tests.unit.routing.pod_fabrics import random_pods


def no_clock() -> float:
    return 0.0


def plan_of(fabric: Fabric, traffic: Traffic, policy: str = "fair", **more: object):  # type: ignore[no-untyped-def]
    return make_plan(fabric, traffic, policy=policy, clock=no_clock, **more)  # type: ignore[arg-type]


def kept(fabric: Fabric, traffic: Traffic, *memories: PreviousPlan, bound: Bound | None = None):  # type: ignore[no-untyped-def]
    return plan_from_paths(
        fabric, traffic, memories, policy="fair", status="kept", bound=bound or Bound(), clock=no_clock
    )


@given(instances(), st.sampled_from(["fair", "greedy", "split", "ethereal", "random"]))
def test_the_paths_of_a_plan_on_its_own_fabric_and_traffic_are_that_plan(
    instance: tuple[Fabric, Traffic], policy: str
) -> None:
    fabric, traffic = instance
    plan = plan_of(fabric, traffic, policy)
    again = kept(fabric, traffic, PreviousPlan.of(fabric, traffic, plan.assignment), bound=plan.bound)
    assert np.array_equal(again.assignment.path, plan.assignment.path)
    assert np.array_equal(again.assignment.share, plan.assignment.share)
    assert again.objective.levels == plan.objective.levels
    assert (again.bound, again.gap) == (plan.bound, plan.gap)
    assert len(moved_flows(traffic, *(PreviousPlan.of(fabric, traffic, p.assignment) for p in (plan, again)))) == 0


@given(instances(), st.data())
def test_on_a_fabric_that_lost_links_live_paths_stay_and_every_flow_that_has_a_way_gets_one(
    instance: tuple[Fabric, Traffic], data: st.DataObject
) -> None:
    fabric, traffic = instance
    memory = PreviousPlan.of(fabric, traffic, plan_of(fabric, traffic).assignment)
    down = data.draw(st.sets(st.sampled_from(fabric.cable_names), max_size=3)) if fabric.cables else set()
    after = fabric.without_links(down)
    plan = kept(after, traffic, memory)
    validate_assignment(after, traffic, plan.assignment)
    old = memory.single_paths(traffic)
    for flow, path in enumerate(plan.assignment.path.tolist()):
        a, b = after.host_leaf[traffic.src[flow]], after.host_leaf[traffic.dst[flow]]
        live = [] if a == b else after.live_paths(int(a), int(b)).tolist()
        if old[flow] in live:
            assert path == old[flow]
        if path == UNROUTABLE:
            assert not live or not after.link_up[[traffic.src[flow], traffic.dst[flow]]].all()


@given(instances())
def test_the_first_memory_wins_and_the_second_has_what_the_first_does_not_know(
    instance: tuple[Fabric, Traffic],
) -> None:
    fabric, traffic = instance
    one, two = (PreviousPlan.of(fabric, traffic, plan_of(fabric, traffic, "random", seed=s).assignment) for s in (1, 2))
    known = np.arange(len(one.key)) % 2 == 0
    # The rows of a unit belong together.
    known &= ~np.isin(one.key, one.key[1:][one.key[1:] == one.key[:-1]])
    part = dataclasses.replace(one, key=one.key[known], path=one.path[known], share=one.share[known])
    plan = kept(fabric, traffic, part, two)
    first, second = part.single_paths(traffic), two.single_paths(traffic)
    crossing = plan.assignment.path >= 0
    wanted = np.where(first >= 0, first, second)
    assert np.array_equal(plan.assignment.path[crossing], wanted[crossing])


@given(instances(phases=False))
def test_a_split_plan_keeps_its_pieces(instance: tuple[Fabric, Traffic]) -> None:
    fabric, traffic = instance
    plan = plan_of(fabric, traffic, "split")
    again = kept(fabric, traffic, PreviousPlan.of(fabric, traffic, plan.assignment))
    if traffic.n_units == traffic.n_flows:
        assert again.assignment.flow.tolist() == plan.assignment.flow.tolist()
        assert again.objective.levels == plan.objective.levels


@given(instances(), st.randoms())
def test_what_a_plan_depends_on_does_not_depend_on_the_order_of_discovery(
    instance: tuple[Fabric, Traffic], random: object
) -> None:
    fabric, _ = instance
    cables, hosts = list(fabric.cables), list(fabric.hosts)
    random.shuffle(hosts)  # type: ignore[attr-defined]
    ported = [dataclasses.replace(cable, lower_port=77) for cable in cables]
    other = dataclasses.replace(fabric, cables=tuple(ported), hosts=tuple(hosts))
    assert fabric_hash(other) == fabric_hash(fabric)
    for name in fabric.cable_names[:1]:
        if fabric.cables[0].up:
            assert fabric_hash(fabric.without_links([name])) != fabric_hash(fabric)
    assert fabric_hash(with_headroom(fabric, 0.5)) != fabric_hash(fabric)


def test_what_a_plan_depends_on_of_jobs_is_their_documents_their_ports_their_qps_and_their_order() -> None:
    ports = np.array([50000, 50001], dtype=np.int32)
    a, b = ("a", "r1", ports, [QueuePairs(2), QueuePairs()]), ("b", "r2", ports[:0], [QueuePairs()])
    one = traffic_hash([a, b])
    others = [
        [a],
        [b, a],
        [("a", "r9", *a[2:]), b],
        [("a", "r1", ports[::-1], a[3]), b],
        [(*a[:3], [QueuePairs(2, "round_robin"), QueuePairs()]), b],
        [(*a[:3], [QueuePairs(), QueuePairs(2)]), b],
    ]
    assert one == traffic_hash([("a", "r1", ports.astype(np.int64), a[3]), b])
    assert len({one, *(traffic_hash(jobs) for jobs in others)}) == 7


@given(instances(), st.floats(0.0, 0.9))
def test_headroom_leaves_the_same_speeds_on_links_that_are_filled_less(
    instance: tuple[Fabric, Traffic], part: float
) -> None:
    fabric, traffic = instance
    less = with_headroom(fabric, part)
    assert less.link_ids == fabric.link_ids
    one, other = plan_of(fabric, traffic, "greedy"), plan_of(less, traffic, "greedy")
    assert other.objective.min_speed == pytest.approx(one.objective.min_speed, rel=1e-6)
    assert (other.objective.link_load <= fabric.link_gbps * (1 - part) * (1 + 1e-6)).all()


@given(seed=st.integers(0, 2**32 - 1), pods=st.booleans(), end=st.sampled_from(["", "\u00e9", "'", "'\"", "\\", "\n"]))
def test_the_hash_is_that_of_the_text_of_which_stored_plans_have_it(seed: int, pods: bool, end: str) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_pods(rng) if pods else random_fabric(rng)
    hosts = tuple(dataclasses.replace(host, name=f"{host.name}{end}") for host in fabric.hosts)
    fabric = dataclasses.replace(fabric, hosts=hosts)
    rows = sorted(zip(fabric.link_ids, fabric.link_gbps.tolist(), fabric.link_up.tolist(), strict=True))
    for planes in ((), (1,)):
        text = repr(rows) + (repr(planes) if planes else "")
        assert fabric_hash(fabric, PortsAside(planes)) == hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@given(seed=st.integers(0, 2**32 - 1))
def test_parts_are_written_as_dataclasses_write_themselves(seed: int) -> None:
    """Switches as they did when a datapath id was all that they had, so that fabrics keep their versions."""
    fabric = random_pods(np.random.default_rng(seed))
    for switch in fabric.switches:
        assert repr(switch) == f"Switch(name={switch.name!r}, dpid={switch.dpid!r})"
    parts: list[Host | Cable] = [*fabric.hosts, *fabric.cables]
    for part in parts:
        values = [(each.name, getattr(part, each.name)) for each in dataclasses.fields(part) if each.repr]
        shown = ", ".join(f"{name}={value!r}" for name, value in values)
        assert repr(part) == f"{type(part).__name__}({shown})"
