"""``survive --live`` and ``compare --live``: what a running controller computes, as tables and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.rest import schemas
from tests.unit.cli.fake_controller import Controller
from tests.unit.cli.live.answers import PREVIEW, VALUE
from tests.unit.cli.running import Run

FABRIC = ["--fabric", str(Path(__file__).parents[4] / "examples" / "clos-4x4x4.yaml")]


def outcome(*names: str, speeds: list[float | None], moved: int = 0) -> dict[str, object]:
    known = [speed for speed in speeds if speed is not None]
    row = {"kinds": ["cable"] * len(names), "names": list(names), "min_speed": min(known), "speeds": speeds}
    return row | {"unroutable": 0, "moved": moved}


SURVIVAL = {
    "epoch": 4,
    "jobs": ["a", "idle"],
    "before": outcome(speeds=[1.0, None]),
    "failures": [outcome("leaf1-spine1", speeds=[0.5, None], moved=3), outcome("leaf1-spine2", speeds=[1.0, None])],
    "above": 0.6,
    "sequence": [outcome("leaf1-spine1", speeds=[0.5, None])],
    "bears_at_most": 0,
}


def test_the_failures_of_a_running_controller_are_shown_as_those_of_files_are(run: Run, controller: Controller) -> None:
    schemas.SurvivalDocument.model_validate(SURVIVAL)
    controller.lay_out((200, SURVIVAL), (200, SURVIVAL))
    code, out, err = run("survive", "--live", "--kind", "cable", "--above", "0.6")
    ((method, path, body),) = controller.asked
    assert (code, err, method, path) == (0, "", "POST", "/v1/plans:survive")
    form = schemas.SurvivalForm.model_validate_json(body)
    assert ([str(kind) for kind in form.kinds], form.pairs, form.above) == (["cable"], False, 0.6)
    assert "2 failures; 1 slow some job down" in out
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()}
    assert rows["leaf1-spine2"] == ["1.000", "0", "0", "0"]
    assert rows["a"] == ["1.000", "0.500", "leaf1-spine1", "1"]
    assert rows["idle"] == ["-", "-", "-", "0"]
    assert "at most 0 leave every job at 0.6 or above" in out
    assert json.loads(run("survive", "--live", "--format", "json")[1]) == SURVIVAL


def test_each_policy_is_previewed_and_hashing_is_a_mode(run: Run, controller: Controller) -> None:
    hashed = VALUE | {"mode": "ecmp", "slowest": None, "expected": {"mean": 0.4, "min": 0.25, "max": 0.5}}
    controller.lay_out((200, PREVIEW | {"after": hashed}), (200, PREVIEW | {"after": VALUE, "moved_count": 5}))
    code, out, err = run("compare", "--live", "--policies", "ecmp, greedy")
    assert (code, err) == (0, "")
    assert [json.loads(body) for _, _, body in controller.asked] == [
        {"mode": "ecmp"},
        {"policy": "greedy", "mode": "planned"},
    ]
    assert "about 0.400 (0.250 to 0.500)" in out
    (greedy,) = [line.split() for line in out.splitlines() if line.strip().startswith("greedy")]
    assert greedy[1:3] == ["1.000", "1.000"]
    assert greedy[-1] == "5"


@pytest.mark.parametrize("command", ["survive", "compare"])
def test_files_and_a_running_controller_exclude_each_other_and_one_is_needed(
    run: Run, controller: Controller, command: str
) -> None:
    code, _, err = run(command, "--live", *FABRIC)
    assert (code, "--fabric" in err, controller.asked) == (2, True, [])
    code, _, err = run(command, *FABRIC)
    assert (code, "--job" in err) == (2, True)
