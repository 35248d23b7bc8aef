from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.traffic import Collective, Traffic
from emulation.fluid.adaptive import Adaptive, AdaptiveKind
from emulation.fluid.records import Results
from emulation.fluid.schedule import SimulatedJob, one_step_each
from emulation.fluid.simulator import LinkChange, Simulation, simulate
from tests.unit.laws import examples
from tests.unit.routing.instances import traffic_of
from tests.unit.routing.pod_fabrics import pod_instances

GB = 10**9


def never(*_: object) -> object:
    raise AssertionError("no plan is asked for")


def run(fabric: object, adaptive: Adaptive, *jobs: SimulatedJob, **more: object) -> Results:
    return simulate(Simulation(fabric, jobs, never, adaptive=adaptive, **more))  # type: ignore[arg-type]


def parallel(n: int, spread: int = 0, *, name: str = "j", start: float = 0.0) -> SimulatedJob:
    """n flows of 12.5 GB (1 s alone) from hosts of the first leaf of n hosts to those of the second."""
    flows = [(i, n + i, 25 * GB // 2, 0) for i in range(spread, n)]
    traffic = traffic_of(flows, [Collective(name, "c")])
    return SimulatedJob(name, traffic, one_step_each(traffic), start=start)


def test_transfers_that_start_together_take_a_path_each_where_there_are_as_many() -> None:
    results = run(clos(4, 2, 4), Adaptive("least_loaded"), parallel(4))
    assert [epoch.seconds for epoch in results.epochs] == pytest.approx([1.0])


def test_with_fewer_paths_than_transfers_they_spread_evenly() -> None:
    results = run(clos(2, 2, 4), Adaptive("least_loaded"), parallel(4))
    assert [epoch.seconds for epoch in results.epochs] == pytest.approx([2.0])
    uplinks = results.carried[results.fabric.up_link[0]]
    assert uplinks == pytest.approx([200.0, 200.0])


def test_a_view_that_is_old_sends_all_of_them_the_same_way() -> None:
    # The view is taken at time 0, when nobody sends: every transfer sees the first path as good as any.
    results = run(clos(4, 2, 4), Adaptive("least_loaded", view_seconds=100.0), parallel(4))
    assert [epoch.seconds for epoch in results.epochs] == pytest.approx([4.0])


def test_of_two_paths_both_are_drawn_so_power_of_two_is_the_least_loaded() -> None:
    for seed in range(3):
        results = run(clos(2, 2, 4), Adaptive("power_of_two", seed=seed), parallel(4))
        assert [epoch.seconds for epoch in results.epochs] == pytest.approx([2.0])


def test_the_choice_is_made_anew_at_every_step() -> None:
    traffic = traffic_of([(0, 2, 25 * GB, 0)], [Collective("j", "ring")])
    ring = SimulatedJob("j", traffic, one_step_each(traffic, np.array([2])))
    other = traffic_of([(1, 3, 25 * GB, 0)], [Collective("k", "c")])
    late = SimulatedJob("k", other, one_step_each(other), start=0.5)
    # The first step has the first path; the other job, half a second later, takes the second one.
    results = run(clos(2, 2, 2), Adaptive("least_loaded"), ring, late)
    assert {epoch.job: epoch.seconds for epoch in results.epochs} == pytest.approx({"j": 2.0, "k": 2.0})


def test_who_stands_on_a_dead_path_chooses_again_and_without_any_path_waits() -> None:
    changes = [LinkChange(0.25, ("spine1",)), LinkChange(0.5, ("spine2",)), LinkChange(1.5, ("spine1",), up=True)]
    traffic = traffic_of([(0, 2, 25 * GB // 2, 0)], [Collective("j", "c")])
    alone = SimulatedJob("j", traffic, one_step_each(traffic))
    results = run(clos(2, 2, 2), Adaptive("least_loaded"), alone, changes=changes)
    assert [epoch.seconds for epoch in results.epochs] == pytest.approx([2.0])
    assert not results.stalled


@given(
    st.sampled_from(["least_loaded", "power_of_two"]),
    st.sampled_from([0.0, 0.05]),
    st.integers(0, 2**31),
    st.integers(1, 3),
    st.integers(2, 6),
)
@settings(max_examples=examples(15, 90), deadline=None)
def test_all_bytes_arrive_no_link_carries_more_than_it_can_and_equal_seeds_agree(
    kind: str, view: float, seed: int, spines: int, flows: int
) -> None:
    drawn = np.random.default_rng(seed)
    rows = [(i % 4, 4 + int(drawn.integers(4)), int(drawn.integers(1, 4)) * GB, i % 2) for i in range(flows)]
    traffic = traffic_of(rows, [Collective("j", "a"), Collective("j", "b")])
    job = SimulatedJob("j", traffic, one_step_each(traffic, np.array([2, 3])), compute_seconds=0.01, epochs=2)
    fabric = clos(spines, 2, 4)
    one, two = (run(fabric, Adaptive(kind, view, seed), job) for _ in range(2))  # type: ignore[arg-type]
    assert one.epochs == two.epochs
    assert not one.stalled
    assert one.carried[fabric.up_link[0]].sum() == pytest.approx(2 * traffic.bytes.sum() * 8e-9)
    assert (one.carried <= fabric.link_gbps * one.ended * (1 + 1e-9)).all()


@pytest.mark.parametrize("kind", ["least_loaded", "power_of_two"])
def test_in_three_layers_transfers_spread_over_whole_paths(kind: AdaptiveKind) -> None:
    # Two aggregation switches with a core each: two paths between pods, one more to the other leaf of the pod.
    fabric = pod_clos(2, 2, 2, 1, 2)
    traffic = traffic_of([(0, 4, 25 * GB // 2, 0), (1, 5, 25 * GB // 2, 0)], [Collective("j", "c")])
    results = run(fabric, Adaptive(kind), SimulatedJob("j", traffic, one_step_each(traffic)))
    assert [epoch.seconds for epoch in results.epochs] == pytest.approx([1.0])


@pytest.mark.parametrize("kind", ["least_loaded", "power_of_two"])
def test_in_three_layers_a_transfer_over_a_dead_core_chooses_another(kind: AdaptiveKind) -> None:
    fabric = pod_clos(2, 1, 1, 2, 1)
    changes = [LinkChange(0.25, ("core1",)), LinkChange(0.5, ("core2",)), LinkChange(1.5, ("core1",), up=True)]
    traffic = traffic_of([(0, 1, 25 * GB // 2, 0)], [Collective("j", "c")])
    alone = SimulatedJob("j", traffic, one_step_each(traffic))
    results = run(fabric, Adaptive(kind), alone, changes=changes)
    assert [epoch.seconds for epoch in results.epochs] == pytest.approx([2.0])
    assert not results.stalled


@settings(max_examples=examples(15, 90), deadline=None)
@given(pod_instances(healthy=True, phases=False), st.sampled_from(["least_loaded", "power_of_two"]))
def test_in_three_layers_no_link_carries_more_than_it_can(instance: tuple[Fabric, Traffic], kind: AdaptiveKind) -> None:
    fabric, traffic = instance
    results = run(fabric, Adaptive(kind), SimulatedJob("j", traffic, one_step_each(traffic)))
    assert not results.stalled
    assert (results.carried <= fabric.link_gbps * results.ended * (1 + 1e-9)).all()
    sent = np.bincount(traffic.src, weights=traffic.bytes * 8e-9, minlength=fabric.n_hosts)
    assert results.carried[: fabric.n_hosts] == pytest.approx(sent)
