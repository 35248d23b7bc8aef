"""Each attack of the campaign in the role of one host, once."""

from __future__ import annotations

import pytest

from tests.rig import attack_as_host
from tests.rig.host_role import ATTACKS


def test_one_host_changes_nothing_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert attack_as_host.main(["--seed", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:-1] == [f"round 1: {attack}: held" for attack in ATTACKS]
    assert "200" in lines[-1]
