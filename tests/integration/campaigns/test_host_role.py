"""Each attack of the campaign in the role of one host, once."""

from __future__ import annotations

from pathlib import Path

from tests.rig.host_role import ATTACKS, host_role_campaign


def test_one_host_changes_nothing_of_others(tmp_path: Path) -> None:
    with host_role_campaign(tmp_path, seed=1) as campaign:
        for attack in ATTACKS:
            assert not campaign.round(attack), attack
