"""Bouts of a referee on the lab: times over the ideal and the fluid model, at its scale; no packet is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.routing import assign
from emulation.evaluation.scenario import parse_scenario
from emulation.experiments.from_scenario import Experiment, experiments_of
from emulation.experiments.lab_bouts import LabBout, bouts_of, lab_lines, lab_standings
from emulation.experiments.request import ExperimentRequest
from emulation.experiments.scale import EFFICIENCY, PACKET_BYTES
from emulation.fluid.schedule import joined
from emulation.packets.report import JOB_COLUMNS
from emulation.policy_names import PACED, WINDOWS

SCALE = 1000.0
"""Seconds of the lab for one of the fabric."""


def experiment(tmp_path: Path, spines: int, kept: str = PACED) -> Experiment:
    """Return two rings of eight on four leaves, under fair with and without paces."""
    rings = {"algorithms": "ring", "bytes": 10**9, "groups": 2, "each_a_job": True, "order": "random", "seed": 11}
    document = {
        "name": "t",
        "fabric": {"clos": {"spines": spines, "leaves": 4, "hosts_per_leaf": 4}},
        "cases": [{"collective": rings, "name": "rings"}],
        "policies": ["fair"],
        "epochs": 1,
    }
    wanted = ExperimentRequest(Path(), (), out=tmp_path, seconds=2.0)
    (made,), _ = experiments_of(parse_scenario(document, tmp_path), wanted, kept=kept)
    return made


def results(one: Experiment, measured: dict[str, float]) -> dict[str, Any]:
    """Return what the lab writes if jobs take so long under a policy, with the paths of ``fair``."""
    fabric, (traffic, _) = one.fabric, joined(one.case.jobs)[:2]
    paths, ids = assign("fair", fabric, traffic).assignment.path.tolist(), fabric.link_ids
    ends = list(zip(fabric.host_leaf[traffic.src].tolist(), fabric.host_leaf[traffic.dst].tolist(), strict=True))
    flows = [
        {"ids": [traffic.flow_id(flow)], "links": [ids[fabric.up_link[a, path]], ids[fabric.down_link[b, path]]]}
        for flow, ((a, b), path) in enumerate(zip(ends, paths, strict=True))
        if a != b
    ]
    runs = [
        {
            "policy": policy,
            "seed": 1,
            "paced": policy.endswith(PACED),
            "flows": flows,
            "jobs": [{"job": job.name, "iterations": [seconds, 3 * seconds]} for job in one.case.jobs],
            "collectives": [{"bytes": 10 * PACKET_BYTES, "retransmissions": 1} for _ in one.case.jobs],
        }
        for policy, seconds in measured.items()
    ]
    return {"scale": {"time": SCALE, "payload_part": EFFICIENCY}, "runs": runs}


def test_an_experiment_runs_each_policy_without_paces_and_with_them(tmp_path: Path) -> None:
    assert experiment(tmp_path, 2).request.policies == ("fair", "fair+paced")
    assert experiment(tmp_path, 2, WINDOWS).request.policies == ("fair", "fair+windows")


def test_times_are_held_against_the_fluid_model_and_its_ideal_at_the_scale_of_the_lab(tmp_path: Path) -> None:
    one = experiment(tmp_path, 4)
    # A ring of eight alone on 100 Gbit/s: each host sends 14 of 16 parts of the buffer.
    alone = SCALE * 14 / 8 * 8e9 / 100e9
    bouts = bouts_of(one, results(one, {"fair": 0.6 * alone, "fair+paced": 0.5 * alone}))
    assert [(bout.policy, bout.failure, len(bout.jobs)) for bout in bouts] == [
        ("fair", "none", 2),
        ("fair+paced", "none", 2),
    ]
    for bout, part in zip(bouts, (1.2, 1.0), strict=True):
        for times in (*bout.jobs, bout.slowest):
            assert times.ideal == pytest.approx(alone, rel=0.01)
            assert times.fluid == pytest.approx(alone, rel=0.01)
            assert times.measured == pytest.approx(part * alone)
            assert times.deviation == pytest.approx(part - 1, abs=0.02)
        assert bout.sent * EFFICIENCY == pytest.approx(20)
        assert bout.sent_again == 2


def test_the_fluid_model_counts_unfair_shares_where_hosts_keep_no_pace(tmp_path: Path) -> None:
    one = experiment(tmp_path, 2)
    unpaced, paced = bouts_of(one, results(one, {"fair": 1.0, "fair+paced": 1.0}))
    assert unpaced.slowest.fluid > paced.slowest.fluid >= paced.slowest.ideal * (1 - 1e-6)
    assert unpaced.slowest.ideal == paced.slowest.ideal


def test_standings_are_the_means_and_the_worst_of_the_cases(tmp_path: Path) -> None:
    one = experiment(tmp_path, 4)
    alone = bouts_of(one, results(one, {"fair": 1.0}))[0].slowest.ideal
    bouts: list[LabBout] = []
    for part in (1.0, 1.1, 1.3):
        bouts += bouts_of(one, results(one, {"fair": 0.5 * part * alone}))
    (row,) = lab_standings("t", bouts, 0.15)
    assert (row.policy, row.kind, row.cases, row.above) == ("fair, on the lab", one.case.kind, 3, 1)
    assert (row.over_ideal, row.over_ideal_worst) == pytest.approx((3.4 / 3, 1.3), rel=0.01)
    assert (row.deviation, row.deviation_worst) == pytest.approx((0.4 / 3, 0.3), abs=0.01)
    assert row.again == pytest.approx(EFFICIENCY / 10)
    assert row.document()["over_spraying"] is None
    assert {len(line) for bout in bouts for line in lab_lines(bout)} == {len(JOB_COLUMNS)}
    assert lab_standings("t", [], 0.15) == []
