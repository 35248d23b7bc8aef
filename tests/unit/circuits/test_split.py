"""Laws of routes with several trees to a destination."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.planning.circuit_plan import ShardPlan
from controller.circuits.planning.plan_document import shard_document
from controller.model.errors import InputError
from tests.unit.circuits.drawn import drawn_job, optical, optical_fabrics, planned, walked_loads
from tests.unit.laws import examples

LAW = settings(deadline=None, max_examples=examples(20, 120))
PLANS = {
    "fabric": optical_fabrics(),
    "seed": st.integers(0, 10**6),
    "phases": st.integers(1, 3),
    "paths": st.integers(1, 5),
}


def shards(fabric: OpticalFabric, seed: int, phases: int, paths: int) -> tuple[ShardPlan, ...]:
    """The plans of a drawn job on all servers; none where dead ports allow no plan."""
    try:
        job = drawn_job(seed, list(fabric.servers), phases=phases)
        return planned(fabric, job, seed=seed, paths=paths).shards
    except InputError:
        assert fabric.dead.any()
        return ()


@LAW
@given(**PLANS)
def test_loads_are_those_of_walking_every_tree_and_never_more_than_by_one_tree(
    fabric: OpticalFabric, seed: int, phases: int, paths: int
) -> None:
    for one, split in zip(shards(fabric, seed, phases, 1), shards(fabric, seed, phases, paths), strict=True):
        np.testing.assert_allclose(walked_loads(split), split.loads, atol=1)
        assert split.seconds <= one.seconds * (1 + 1e-9)
        assert split.bound_seconds <= split.seconds * (1 + 1e-9)
        assert (split.succ == one.succ).all()


@LAW
@given(**PLANS)
def test_trees_lead_to_their_destination_and_shares_add_up(
    fabric: OpticalFabric, seed: int, phases: int, paths: int
) -> None:
    for plan in shards(fabric, seed, phases, paths):
        trees, shares = plan.routes.trees, plan.routes.shares
        m = plan.succ.shape[1]
        assert len(trees) <= paths
        assert (shares >= 0).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)
        for tree, target in np.ndindex(len(trees), m):
            used = bool((trees[tree, target] >= 0).any())
            assert used or not (shares[:, tree, target] > 0).any() or m == 1
            for source in range(m) if used else ():
                at, hops = source, 0
                while at != target:
                    at, hops = int(plan.succ[trees[tree, target, at], at]), hops + 1
                    assert hops < m
        for g in range(len(plan.shard.demand.groups)):
            assert sum(ring.share for ring in plan.routes.rings if ring.group == g) == pytest.approx(1)


@LAW
@given(**PLANS)
def test_the_document_has_the_next_hops_of_every_tree(
    fabric: OpticalFabric, seed: int, phases: int, paths: int
) -> None:
    for plan in shards(fabric, seed, phases, paths):
        document = shard_document(fabric, plan)
        first = sum(len(row) for row in document["next_hops"].values())
        rules = np.zeros(len(document["servers"]))
        for u, name in enumerate(document["servers"]):
            rules[u] = len(document["next_hops"][name])
            rules[u] += sum(name in row["next_hops"] for row in document["more_trees"])
        assert first + sum(len(row["next_hops"]) for row in document["more_trees"]) == rules.sum()
        assert document["rules_per_server"] == rules.max()


def test_paths_are_refused_where_they_cannot_be() -> None:
    job = drawn_job(1, ["h1", "h2", "h3"])
    with pytest.raises(InputError, match="paths: 17: must be 1 to 16"):
        planned(optical(servers=4, nics=2), job, paths=17)
    with pytest.raises(InputError, match="paths: 2: servers that do not forward have one path"):
        planned(optical(servers=4, nics=2, forwarding=False), job, paths=2)
