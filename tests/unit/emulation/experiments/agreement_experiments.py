"""Experiments of which reports compare simulation and emulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from emulation.evaluation.scenario import parse_scenario
from emulation.experiments.from_scenario import Experiment, experiments_of
from emulation.experiments.request import ExperimentRequest

RINGS = {"op": "all_reduce", "algorithms": ["ring"], "bytes": [10**9], "groups": 2, "order": "random", "seed": 14}


def experiments(out: Path, **fields: Any) -> tuple[list[Experiment], list[str]]:
    document = {
        "name": "t",
        "fabric": {"clos": {"spines": 4, "leaves": 4, "hosts_per_leaf": 4, "host_gbps": 100, "uplink_gbps": 100}},
        "cases": [{"collective": RINGS}],
        "policies": ["greedy", "ecmp", "fair+split"],
        "seeds": [3, 8],
        **fields,
    }
    return experiments_of(parse_scenario(document, out), ExperimentRequest(Path(), (), out=out, seconds=2.0))
