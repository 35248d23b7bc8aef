"""Layers, hot links, and what ECMP would do, against counting by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import FIRST_PORT, Collective, Traffic
from controller.planning.make_plan import make_plan
from controller.rest.schemas.trace import TraceComparison, TraceHot
from controller.southbound.enforcement.registry import encode_flows
from controller.telemetry.ecmp_draws import under_ecmp
from controller.telemetry.imbalance import imbalance
from controller.telemetry.trace import TraceInputs
from controller.telemetry.trace_document import planned_trace
from controller.telemetry.trace_summary import link_rows, summary
from tests.traffic_columns import traffic_of_columns
from tests.unit.routing.pod_fabrics import fat_tree
from tests.unit.strategies import fabrics


def traffic(fabric: Fabric, ends: list[tuple[int, int]], sizes: list[int]) -> Traffic:
    n = len(ends)
    at = np.arange(n)
    return traffic_of_columns(
        [src for src, _ in ends],
        [dst for _, dst in ends],
        FIRST_PORT + at,
        size=sizes[:n],
        collective=at % 2,
        number=at // 2,
        collectives=[Collective("a", "dp"), Collective("b", "dp")],
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Fabric, Traffic]:
    fabric = draw(st.one_of(fabrics(min_leaves=2), st.just(fat_tree(4))))
    hosts = st.integers(0, fabric.n_hosts - 1)
    flows = st.tuples(hosts, hosts).filter(lambda ends: ends[0] != ends[1])
    ends = draw(st.lists(flows, min_size=2, max_size=12))
    sizes = draw(st.lists(st.integers(1, 10**6), min_size=len(ends), max_size=len(ends)))
    return fabric, traffic(fabric, ends, sizes)


def _layer(link: str) -> str:
    """The layer of a link by the names of its switches, those of leaves without the word."""
    kinds = [switch.rstrip("0123456789") for switch in link.split(":")[0].split("->")]
    up = kinds in (["leaf", "spine"], ["leaf", "agg"], ["agg", "core"])
    return ("aggregation " if "core" in kinds else "") + ("uplinks" if up else "downlinks")


@given(cases(), st.integers(0, 3))
def test_the_summary_counts_what_each_live_link_carries(case: tuple[Fabric, Traffic], seed: int) -> None:
    fabric, made = case
    plan = make_plan(fabric, made, policy="ecmp", seed=seed, clock=lambda: 0.0)
    situation = TraceInputs(fabric, made, encode_flows(fabric, made, plan.assignment, "per_flow"))
    found = planned_trace(situation, fabric, {})
    on, size = Counter[str](), Counter[str]()
    for flow in found["flows"]:
        for link in (flow["real"] or [])[1:-1]:
            on[link] += 1
            size[link] += flow["bytes"]
    live = [fabric.link_ids[i] for i in range(fabric.first_cable_link, fabric.n_links) if fabric.link_up[i]]
    assert {row["id"]: (row["flows"], row["bytes"]) for row in found["links"]} == {
        link: (on[link], size[link]) for link in live
    }
    for layer in found["layers"]:
        links = [link for link in live if _layer(link) == layer["layer"].replace("leaf ", "")]
        assert layer["links"] == len(links)
        for unit, counted in (("flows", on), ("bytes", size)):
            assert layer[unit]["fim"] == pytest.approx(imbalance([counted[link] for link in links]).fim)
    for hot in found["hot"]:
        TraceHot.model_validate(hot)
        assert len(hot["flows"]) == on[hot["link"]] >= 2
        links = [link for link in live if _layer(link) == _layer(hot["link"])]
        assert size[hot["link"]] > np.mean([size[link] for link in links])
    assert [hot["bytes"] for hot in found["hot"]] == sorted((hot["bytes"] for hot in found["hot"]), reverse=True)
    # A link that is hot is named, and so are all that are as hot.
    fullest = max((size[link] for link in live if on[link] >= 2), default=0)
    full = {_layer(link) for link in live if size[link] == fullest}
    uneven = all(
        layer["bytes"]["max_over_mean"] > 1.01
        for layer in found["layers"]
        if layer["layer"].replace("leaf ", "") in full
    )
    if fullest == max(size.values(), default=0) and fullest and uneven:
        assert found["hot"]


@given(cases(), st.sampled_from([None, "a"]))
def test_under_ecmp_is_what_the_policy_says_seed_by_seed(case: tuple[Fabric, Traffic], job: str | None) -> None:
    fabric, made = case
    found = under_ecmp(fabric, made, job=job, seeds=3)
    TraceComparison.model_validate({**found, "plan_min_speed": None})
    fims, speeds, hot = [], [], []
    for seed in range(3):
        plan = make_plan(fabric, made, policy="ecmp", seed=seed, clock=lambda: 0.0)
        situation = TraceInputs(fabric, made, encode_flows(fabric, made, plan.assignment, "per_flow"))
        trace = planned_trace(situation, fabric, {}, job=job)
        fims.append([layer["bytes"]["fim"] for layer in trace["layers"]])
        own = plan.objective.speed[[0] if job else [0, 1]]
        speeds.append(1.0 if np.isnan(own).all() else np.nanmin(own))
        hot.append(trace["hot"])
    for i, layer in enumerate(found["layers"]):
        drawn = [each[i] for each in fims]
        assert (layer["bytes"]["fim"]["min"], layer["bytes"]["fim"]["max"]) == pytest.approx((min(drawn), max(drawn)))
    assert found["min_speed"]["mean"] == pytest.approx(np.mean(speeds))
    assert fims[found["worst_seed"]][0] == pytest.approx(max(each[0] for each in fims))
    assert found["hot"] == hot[found["worst_seed"]]


def test_drained_and_dead_links_are_in_no_mean() -> None:
    fabric = clos(3, 2, 1).without_links(["spine2"])
    assert {row["id"] for row in link_rows(fabric)} == {
        f"{a}->{b}"
        for leaf in ("leaf1", "leaf2")
        for spine in ("spine1", "spine3")
        for a, b in ((leaf, spine), (spine, leaf))
    }


def test_slow_links_are_hot_before_fast_ones_and_flows_count_where_bytes_are_not_known() -> None:
    links = [{"id": f"u{n}", "layer": "uplinks", "gbps": gbps} for n, gbps in enumerate([100.0, 100.0, 25.0])]
    flows = [{"id": str(n), "real": [f"u{up}"], "bytes": 100} for n, up in enumerate([0, 0, 0, 2, 2, 1])]
    assert [hot["link"] for hot in summary(links, flows)["hot"]] == ["u2"]
    unknown = [{**flow, "bytes": None} for flow in flows]
    told = summary([{**link, "gbps": None} for link in links], unknown)
    assert [(hot["link"], hot["flows"]) for hot in told["hot"]] == [("u0", ["0", "1", "2"])]
    assert told["layers"][0]["bytes"] is None
    assert told["layers"][0]["flows"]["fim"] == pytest.approx(imbalance([3, 1, 2]).fim)


def test_without_flows_no_layer_is_said_to_be_even() -> None:
    layers = summary(link_rows(clos(2, 2, 2)), [])["layers"]
    assert [(row["flows"], row["bytes"]) for row in layers] == [(None, None), (None, None)]
