"""The table of rules a switch in docs/explanation/enforcement.md is right."""

from __future__ import annotations

import re

import numpy as np
import pytest

from controller.model.assignment import Assignment
from controller.model.choices.enforcement import BUILT_IN_ENFORCEMENTS
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.routing import assign
from controller.southbound.enforcement.ingress import with_exact_ports
from controller.southbound.enforcement.registry import compile_rules, encode_flows, rule_enforcements
from controller.southbound.forwarding.base import compile_base
from controller.workload.expand import combine, expand
from controller.workload.job_file import parse_job
from tests.unit.southbound.enforcement.documented_rows import rows
from tests.unit.southbound.plans import traffic_of

NONE = "no plan"
BY_RULES = [name for name in BUILT_IN_ENFORCEMENTS if name in rule_enforcements()]


def formulas() -> dict[str, tuple[str, str, str]]:
    """For a leaf, a spine, and a spine with parallel cables, by enforcement (and for no plan)."""
    found = {}
    for name, *cells in rows("| | leaf | spine, P = 1"):
        texts = [cell.strip("`") for cell in cells]
        assert all(re.fullmatch(r"[LHUFP\d*+() -]+", text) for text in texts)
        found[name.removesuffix(" adds").strip("`")] = (texts[0], texts[1], texts[2])
    return found


def told(enforcement: str, leaves: int, spines: int, hosts: int, parallel: int, flows: int) -> tuple[int, int]:
    """Rules of a leaf and of a spine, by the formulas."""
    sizes = {"L": leaves, "H": hosts, "U": spines * parallel, "F": flows, "P": parallel}
    spine = 1 if parallel == 1 else 2
    parts = [formulas()[name] for name in dict.fromkeys((NONE, enforcement))]
    leaf, at_spine = (sum(eval(part[which], {}, sizes) for part in parts) for which in (0, spine))
    return leaf, at_spine


@pytest.mark.parametrize("sizes", [(2, 2, 1, 1), (4, 3, 5, 1), (5, 2, 2, 3), (3, 1, 4, 2)])
def test_formulas_count_what_is_compiled(sizes: tuple[int, int, int, int]) -> None:
    leaves, spines, hosts, parallel = sizes
    fabric = clos(spines, leaves, hosts, parallel=parallel)
    # Every host sends to the one in its place on the next leaf, over each path.
    flows = [
        (host, (host + hosts) % fabric.n_hosts, 49152 + k)
        for host in range(fabric.n_hosts)
        for k in range(fabric.n_paths)
    ]
    traffic, assignment = traffic_of(flows), Assignment.single(np.array([port - 49152 for _, _, port in flows]))
    base = compile_base(fabric)
    assert (len(base[1]), len(base[65537])) == told(NONE, *sizes, 0)
    for enforcement in BY_RULES:
        rules = compile_rules(enforcement, fabric, traffic, encode_flows(fabric, traffic, assignment, enforcement))
        counts = {(len(rules[leaf.dpid]), len(rules[spine.dpid])) for leaf in fabric.leaves for spine in fabric.spines}
        assert counts == {told(enforcement, *sizes, hosts * fabric.n_paths)}
        assert all(len(rules[leaf.dpid].groups) <= spines * parallel + 1 for leaf in fabric.leaves)


def test_numbers_in_the_table_are_those_of_the_formulas() -> None:
    seen = []
    for leaves, spines, hosts, flows, enforcement, leaf, spine, groups, _ in rows("| leaves | spines |"):
        each = [int(cell.replace(",", "")) for cell in (leaves, spines, hosts, flows, leaf, spine, groups)]
        name = NONE if enforcement == "none (ECMP)" else enforcement
        assert told(name, each[0], each[1], each[2] // each[0], 1, each[3] // each[0]) == (each[4], each[5])
        assert each[6] == (0 if name == NONE else each[1] + 1)
        seen.append((each[0], name))
    assert seen == [(size, name) for size in (16, 64, 1024) for name in (NONE, *BY_RULES)]


def test_numbers_of_rules_of_three_layers_in_the_table_are_those_compiled_and_of_the_formula() -> None:
    (formula,) = (cells for name, *cells in rows("| | leaf | aggregation switch | core |") if name == NONE)
    for text, hosts, *told_rules in rows("| fabric | hosts | rules per leaf |"):
        size = {name: int(value) for name, value in re.findall(r"([PLHGC]) = (\d+)", text)}
        wanted = [int(cell) for cell in told_rules]
        assert int(hosts.replace(",", "")) == size["P"] * size["L"] * size["H"]
        assert [eval(cell.strip("`"), {}, size) for cell in formula] == wanted
        if size["P"] <= 16:
            fabric = pod_clos(size["P"], size["L"], size["G"], size["C"], size["H"])
            base = compile_base(fabric)
            for layer, many in zip(fabric.layers, wanted, strict=True):
                assert {len(base[switch.dpid]) for switch in layer} == {many}


def test_numbers_of_rules_by_qps_in_the_table_are_those_of_a_ring() -> None:
    spines, leaves, hosts = 8, 16, 16
    whole = clos(spines, leaves, hosts)
    order = [name for n in range(hosts) for name in whole.host_names[n::hosts]]
    ring = {"name": "ring", "op": "all_reduce", "ranks": list(range(len(order))), "bytes": 2**33}
    seen = []
    for of_leaves, _, failed, qps, exact, masked in rows("| leaves | spines | failed spines |"):
        seen.append((of_leaves, failed, qps))
        if (int(of_leaves), int(qps) > 16) != (leaves, False):
            continue
        job = parse_job({"name": "job", "hosts": order, "qps": int(qps), "collectives": [ring]})
        traffic = combine([expand(whole, job)])
        fabric = whole.without_links([spine.name for spine in whole.spines[spines - int(failed) :]])
        wire = encode_flows(fabric, traffic, assign("fair", fabric, traffic).assignment, "per_flow")
        rules, base = compile_rules("per_flow", fabric, traffic, wire), len(compile_base(whole)[1])
        held = [rules[leaf.dpid] for leaf in fabric.leaves]
        assert max(len(each) for each in held) - base == int(masked.replace(",", ""))
        assert max(len(with_exact_ports(each)) for each in held) - base == int(exact.replace(",", ""))
    wanted = [(size, failed, qps) for size in ("16", "64") for qps in ("1", "4", "16", "64", "128") for failed in "01"]
    assert seen == wanted
