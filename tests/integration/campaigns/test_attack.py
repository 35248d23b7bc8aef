"""The attack campaign in short: every attack once, and everything that must hold does; and it notices what does not."""

from __future__ import annotations

import re
import sys

import pytest

from controller.model.files.clos import clos
from emulation.lab import Lab
from tests.campaigns.attacks.campaign import AttackCampaign, AttackCheckFailed
from tests.campaigns.attacks.kinds import BY_NAME, KINDS, each_once
from tests.campaigns.attacks.watch import AttackWatch
from tests.rig.bench import Bench

SEED = 1
SECONDS = 1.0
PATIENCE = 4.0


@pytest.mark.switches
def test_every_attack_leaves_rules_pings_memory_and_health_as_they_should_be(bench: Bench) -> None:
    fabric = clos(3, 2, 2)
    said: list[str] = []
    rounds = list(enumerate(each_once(SEED), start=1))
    with Lab(fabric, out=bench.out) as lab:
        outcome = AttackCampaign(
            lab, fabric, SEED, said.append, seconds=SECONDS, keep_going=True, patience=PATIENCE
        ).run(rounds, quiet_at_the_end=False)
    print("\n".join(said), file=sys.stderr)
    assert not outcome.failed, "\n".join(map(str, outcome.failed))
    assert sum(len(result.kinds) for result in outcome.results) == len(KINDS)


@pytest.mark.switches
def test_rules_that_vanish_during_an_attack_fail_the_round_and_it_says_how_to_repeat_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric = clos(2, 2, 2)
    with Lab(fabric, out=bench.out) as lab:
        enter = AttackWatch.__enter__

        def sabotaged(watch: AttackWatch) -> AttackWatch:
            # Nobody puts the rules back, so there is nothing to wait for.
            monkeypatch.setattr("tests.campaigns.attacks.campaign.RIGHT_WITHIN", 0.0)
            lab.ofctl("del-flows", "spine1", "ip")
            return enter(watch)

        monkeypatch.setattr(AttackWatch, "__enter__", sabotaged)
        # Otherwise the controller may have put the rules back before they are looked at.
        options = ("--readback-seconds", "0")
        campaign = AttackCampaign(lab, fabric, 5, lambda text: None, seconds=0.5, options=options, patience=PATIENCE)
        with pytest.raises(AttackCheckFailed) as failed:
            campaign.run([(3, [BY_NAME["other versions"]])])
    text = str(failed.value)
    assert "seed 5, round 3: other versions" in text
    assert "rules during the attack differ on spine1 (" in text
    assert "python -m tests.campaigns.attacks --seed 5 --round 3 --kind 'other versions'" in text
    (transcript,) = re.findall(r"(\S+round-3-other-versions\.txt)", text)
    with open(transcript) as lines:
        assert lines.readline().startswith("+")
