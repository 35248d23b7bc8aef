from __future__ import annotations

import dataclasses
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import Collective, Traffic
from controller.routing import Options, PreviousPlan, assign
from controller.routing.problem.demand import Demand
from tests.unit.laws import examples
from tests.unit.routing.instances import instances, traffic_of
from tests.unit.routing.pod_fabrics import pod_instances


@settings(max_examples=examples(30, 180), deadline=None)
@given(instances())
def test_it_remembers_the_path_of_every_flow_that_is_still_there(instance: tuple[Fabric, Traffic]) -> None:
    fabric, traffic = instance
    assignment = assign("ecmp", fabric, traffic).assignment
    known = PreviousPlan.of(fabric, traffic, assignment).single_paths(traffic)
    np.testing.assert_array_equal(known, np.where(assignment.path >= 0, assignment.path, -1))


def test_flows_are_known_by_their_ends_and_port_whatever_their_number_and_job() -> None:
    fabric = clos(3, 2, 3)
    before = traffic_of([(0, 3, 1, 0), (1, 4, 1, 0)], [Collective("a", "c")], [50000, 50001])
    previous = PreviousPlan.of(fabric, before, assign("ecmp", fabric, before, seed=1).assignment)
    paths = previous.single_paths(before)
    after = traffic_of([(2, 5, 1, 0), (1, 4, 9, 1)], [Collective("new", "c"), Collective("other", "d")], [50000, 50001])
    assert previous.single_paths(after).tolist() == [-1, paths[1]]


def test_a_split_flow_is_known_by_its_largest_piece_and_by_all_its_rows() -> None:
    fabric = clos(3, 2, 4)
    traffic = traffic_of([(i, 4 + i, 10**9, 0) for i in range(4)], [Collective("a", "c")])
    assignment = assign("split", fabric, traffic).assignment
    previous = PreviousPlan.of(fabric, traffic, assignment)
    flow, path, share = previous.rows(traffic)
    assert previous.is_split()
    np.testing.assert_array_equal(flow, assignment.flow)
    np.testing.assert_array_equal(path, assignment.path)
    np.testing.assert_allclose(share, assignment.share)
    for f, largest in enumerate(previous.single_paths(traffic).tolist()):
        assert share[(flow == f) & (path == largest)] == share[flow == f].max()


def test_hosts_and_spines_keep_their_names_in_a_fabric_with_other_numbers() -> None:
    fabric = clos(3, 2, 2)
    traffic = traffic_of([(0, 2, 1, 0), (1, 3, 1, 0)], [Collective("a", "c")], [50000, 50001])
    previous = PreviousPlan.of(fabric, traffic, assign("ecmp", fabric, traffic, seed=4).assignment)
    # The same fabric with hosts and spines listed the other way round, and without h2.
    turned = dataclasses.replace(
        fabric,
        hosts=tuple(h for h in fabric.hosts[::-1] if h.name != "h2"),
        layers=(fabric.leaves, fabric.spines[::-1]),
    )
    there = traffic_of([(2, 1, 1, 0)], [Collective("a", "c")], [50000])
    [path] = previous.on(turned).single_paths(there).tolist()
    assert turned.path_names[path] == fabric.path_names[previous.single_paths(traffic)[0]]
    assert len(previous.on(turned).key) == 1


@settings(max_examples=examples(30, 180), deadline=None)
@given(instances())
def test_the_shares_of_each_flow_add_up_to_one_also_where_flows_cannot_be_told_apart(
    instance: tuple[Fabric, Traffic],
) -> None:
    fabric, traffic = instance
    made = assign("fair", fabric, traffic, options=Options(rounds=500, max_splits=50)).assignment
    flow, path, share = PreviousPlan.of(fabric, traffic, made).rows(traffic)
    total = np.bincount(flow, weights=share, minlength=traffic.n_flows)
    has_path = np.isin(np.arange(traffic.n_flows), made.flow[made.path >= 0])
    assert np.allclose(total, has_path)
    assert len(set(zip(flow.tolist(), path.tolist(), strict=True))) == len(flow)


@settings(max_examples=examples(30, 400), deadline=None)
@given(instances() | pod_instances(), st.randoms(use_true_random=False))
def test_plans_near_a_former_one_prove_no_other_ideal_times_than_plans_without_it(
    instance: tuple[Fabric, Traffic], random: Random
) -> None:
    fabric, traffic = instance
    plan = assign("fair", fabric, traffic, options=Options(rounds=500)).assignment
    names = [*fabric.cable_names, *(switch.name for layer in fabric.layers for switch in layer)]
    there = fabric.without_links(random.sample(names, min(len(names), random.randint(1, 2))))
    near = assign(
        "fair", there, traffic, previous=PreviousPlan.of(fabric, traffic, plan), options=Options(rounds=500)
    ).demand
    assert near is not None
    proved = Demand.of(there, traffic)
    np.testing.assert_allclose(near.ideal_seconds, proved.ideal_seconds, rtol=1e-6)
    np.testing.assert_array_equal(near.ideal_within, proved.ideal_within)
