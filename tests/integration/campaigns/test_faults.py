"""The fault campaign: rounds of a fixed seed pass, the same seed draws the same faults, and a campaign notices
what is wrong."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from emulation.lab import Lab
from tests.campaigns.faults import check
from tests.campaigns.faults.campaign import FaultCampaign, FaultCheckFailed, Say
from tests.campaigns.faults.kinds import BAD_REQUESTS, draw
from tests.campaigns.faults.state import ExpectedPiece, FaultState
from tests.campaigns.faults.world import FaultLab
from tests.rig.bench import Bench
from tests.rig.forks import forks

SEED, ROUNDS = 1, 8
"""``make faults`` has the long form."""
PATIENCE_SECONDS = 180.0


def campaign(lab: Lab, fabric: Fabric, seed: int, say: Say, options: Sequence[str] = (), **more: Any) -> FaultCampaign:
    return FaultCampaign(lab, fabric, seed, say, options, right_within=PATIENCE_SECONDS, popen=forks().popen, **more)


def drawn(seed: int, count: int) -> list[str]:
    rng, state = random.Random(seed), FaultState(clos(3, 4, 2))
    return [str(draw(rng, state)) for _ in range(count)]


def test_the_same_seed_draws_the_same_faults_and_another_seed_others() -> None:
    assert drawn(7, 50) == drawn(7, 50)
    assert drawn(7, 50) != drawn(8, 50)


def test_every_bad_request_is_drawn_sooner_or_later() -> None:
    requests = {f"bad request {method} {target}" for method, target, _ in BAD_REQUESTS}
    assert requests <= set(drawn(1, 3000))


@pytest.mark.switches
def test_rounds_of_faults_each_leave_everything_as_it_should_be(bench: Bench) -> None:
    fabric = clos(3, 4, 2)
    said: list[str] = []
    with Lab(fabric, out=bench.out) as lab:
        outcome = campaign(lab, fabric, SEED, said.append).run(ROUNDS)
    print("\n".join(said), file=sys.stderr)
    assert len(outcome.seconds) == ROUNDS


@pytest.mark.switches
def test_rounds_of_faults_on_three_layers_each_leave_everything_as_it_should_be(bench: Bench) -> None:
    fabric = pod_clos(2, 2, 2, 2, 2)
    said: list[str] = []
    with Lab(fabric, out=bench.out) as lab:
        outcome = campaign(lab, fabric, SEED, said.append).run(6)
    print("\n".join(said), file=sys.stderr)
    assert len(outcome.seconds) == 6


@pytest.mark.switches
def test_rounds_of_faults_on_planes_each_leave_everything_as_it_should_be(bench: Bench) -> None:
    fabric = clos(2, 2, 2, planes=2)
    said: list[str] = []
    with Lab(fabric, out=bench.out) as lab:
        outcome = campaign(lab, fabric, SEED, said.append).run(6)
    print("\n".join(said), file=sys.stderr)
    assert len(outcome.seconds) == 6


@pytest.mark.switches
def test_with_select_groups_in_place_of_bundles_faults_leave_everything_as_it_should_be(bench: Bench) -> None:
    fabric = clos(3, 3, 2)
    with Lab(fabric, out=bench.out) as lab:
        outcome = campaign(lab, fabric, 2, print, ecmp_action="select").run(4)
        held = lab.ofctl("dump-flows", "leaf1")
    assert len(outcome.seconds) == 4
    assert "bundle" not in held


@pytest.mark.switches
def test_a_rule_that_goes_missing_fails_the_round_with_its_seed_and_steps(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric = clos(2, 2, 1)
    with Lab(fabric, out=bench.out) as lab:
        # The controller does not look at the rules again, so it repairs nothing.
        options = ("--readback-seconds", "0")
        made = campaign(lab, fabric, 5, lambda text: None, options)

        def sabotaged(world: FaultLab) -> tuple[ExpectedPiece, ...]:
            """Delete rules as soon as all is right, and wait no longer from then on."""
            settled(world)
            lab.ofctl("del-flows", "spine1", "ip")
            monkeypatch.setattr(made, "_right_within", 0.0)
            return settled(world)

        settled = check.settled
        monkeypatch.setattr("tests.campaigns.faults.campaign.check.settled", sabotaged)
        with pytest.raises(FaultCheckFailed, match=r"seed 5, start.*\n(.*\n)*.*spine1: missing 0 900"):
            made.run(3)
