"""The script that shows that a change of structure changes no result can be run, on two layers and on three."""

from __future__ import annotations

import random
from pathlib import Path

import orjson
import pytest

from controller.southbound.enforcement.registry import rule_enforcements
from scripts.guard_outputs import draw, rules_of, run


@pytest.mark.parametrize("three_layers", [False, True])
def test_an_instance_has_plans_and_rules_of_every_enforcement_by_rules(tmp_path: Path, three_layers: bool) -> None:
    fabric, jobs = draw(random.Random(1), three_layers=three_layers)
    place, files = tmp_path / "fabric.json", [tmp_path / f"{job['name']}.json" for job in jobs]
    for path, document in zip([place, *files], [fabric, *jobs], strict=True):
        path.write_bytes(orjson.dumps(document))
    rules = rules_of(place, files)
    assert rules.keys() == {"base", "drained"} | {
        f"{policy} {enforcement} {action}"
        for policy in ("fair", "split", "spray")
        for enforcement in rule_enforcements()
        for action in ("bundle", "select")
    }
    assert all(len(switches) for switches in rules.values())
    planned = run("plan", "--fabric", str(place), *(part for path in files for part in ("--job", str(path))))
    assert planned["exit_code"] in (0, 1)
    assert planned["document"]["policy"] == "fair"
