"""The campaign's options are checked before anything is started, and each kind of fault is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns.cluster import command, demo
from tests.campaigns.cluster.kinds import KINDS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lease", "0.1"], "faults-cluster: --lease: 0.1: must be at least 0.5"),
        (["--lease", "nan"], "faults-cluster: --lease: nan: must be at least 0.5"),
        (["--rate", "0"], "faults-cluster: --rate: 0.0: must be above 0 and at most 1000"),
        (["--rounds", "0"], "faults-cluster: --rounds: 0: must be at least 1"),
        (["--kinds", "flood"], "faults-cluster: --kinds: 'flood': must be of: kill -9, "),
    ],
)
def test_wrong_options_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(message), said
    assert said.count("\n") == 1


def test_the_demo_checks_its_lease(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main(["--lease", "0"]) == 2
    assert capsys.readouterr().err == "cluster-demo: --lease: 0.0: must be at least 0.5\n"


@pytest.mark.parametrize(
    ("fabric", "message"),
    [
        ("examples/dual-tor.yaml", "examples/gpt3-a.json: hosts[2]: 'h9': the fabric has no host of this name"),
        ("examples/none.yaml", "examples/none.yaml: cannot be read: No such file or directory"),
    ],
)
def test_the_demo_needs_a_fabric_that_its_jobs_fit(
    fabric: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(Path(__file__).parents[4])
    assert demo.main(["--fabric", fabric]) == 2
    assert capsys.readouterr().err == f"cluster-demo: {message}\n"


def test_every_kind_is_drawn_before_any_is_drawn_again() -> None:
    drawn = command.drawn(command.chosen(""), 7, 2 * len(KINDS) + 3)
    assert len(drawn) == 2 * len(KINDS) + 3
    assert set(drawn[: len(KINDS)]) == set(drawn[len(KINDS) : 2 * len(KINDS)]) == set(KINDS)
    assert drawn == command.drawn(command.chosen(""), 7, len(drawn))


def test_kinds_are_chosen_by_name() -> None:
    assert [kind.name for kind in command.chosen("step-down, kill -9")] == ["step-down", "kill -9"]
