"""A plan in a file: read at the start and when it changes, and never replaced by one that cannot be used."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from agent.errors import HostAgentError
from agent.plans import plan_file
from agent.plans.plan_file import PlanFile
from tests.rig.waiting import eventually

DOCUMENT: dict[str, Any] = {
    "epoch": 1,
    "host": "h1",
    "mode": "planned",
    "source": "fd00:fab:0:1::2",
    "decapsulate": [],
    "destinations": [],
    "flows": [],
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(plan_file, "LOOK_SECONDS", 0.01)
    path = tmp_path / "h1.json"
    path.write_text(json.dumps(DOCUMENT))
    return path


@pytest.fixture
def taken(file: Path) -> Iterator[Queue[int]]:
    """The epochs of the plans that are handed out."""
    epochs: Queue[int] = Queue()
    source = PlanFile("h1", file, lambda plan, _: epochs.put(plan.epoch))
    source.start(None)
    yield epochs
    source.close()


def test_each_new_plan_of_a_file_is_handed_out(file: Path, taken: Queue[int]) -> None:
    assert taken.get(timeout=60) == 1
    file.write_text(json.dumps(DOCUMENT | {"epoch": 20}))
    assert taken.get(timeout=60) == 20


def test_what_is_no_plan_leaves_the_plan_before(
    file: Path, taken: Queue[int], caplog: pytest.LogCaptureFixture
) -> None:
    assert taken.get(timeout=60) == 1
    with caplog.at_level(logging.ERROR):
        file.write_text("{")
        eventually(lambda: "is not JSON; the plan before stays" in caplog.text, "it is told")
        file.unlink()
        eventually(lambda: "No such file or directory; the plan before stays" in caplog.text, "it is told")
    file.write_text(json.dumps(DOCUMENT | {"epoch": 30}))
    assert taken.get(timeout=60) == 30


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is not an object"),
        (json.dumps(DOCUMENT | {"host": "h2"}), "is the plan of host 'h2'"),
        (json.dumps(DOCUMENT | {"source": "x"}), "source: 'x': is not an IPv6 address"),
    ],
)
def test_a_start_with_a_file_that_holds_no_plan_of_the_host_is_refused(file: Path, content: str, message: str) -> None:
    file.write_text(content)
    with pytest.raises(HostAgentError) as refused:
        PlanFile("h1", file, lambda *_: None)
    assert (refused.value.exit_code, f"--plan {file}: " in str(refused.value)) == (2, True)
    assert message in str(refused.value)
