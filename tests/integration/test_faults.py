"""The fault campaign: thirty rounds of a fixed seed pass, the same seed draws the same faults, and a campaign notices
what is wrong."""

from __future__ import annotations

import random
import sys

import pytest

from controller.model.clos import clos
from emulation.faults import check
from emulation.faults.campaign import Campaign, Failed
from emulation.faults.expected import Piece
from emulation.faults.kinds import BAD_REQUESTS, draw
from emulation.faults.state import State
from emulation.faults.world import World
from emulation.lab import Lab
from tests.integration.harness import Bench

SEED, ROUNDS = 1, 30


def drawn(seed: int, count: int) -> list[str]:
    rng, state = random.Random(seed), State(clos(3, 4, 2))
    return [str(draw(rng, state)) for _ in range(count)]


def test_the_same_seed_draws_the_same_faults_and_another_seed_others() -> None:
    assert drawn(7, 50) == drawn(7, 50)
    assert drawn(7, 50) != drawn(8, 50)


def test_every_bad_request_is_drawn_sooner_or_later() -> None:
    requests = {f"bad request {method} {target}" for method, target, _ in BAD_REQUESTS}
    assert requests <= set(drawn(1, 3000))


@pytest.mark.switches
def test_thirty_rounds_of_faults_each_leave_everything_as_it_should_be(bench: Bench) -> None:
    fabric = clos(3, 4, 2)
    said: list[str] = []
    with Lab(fabric, out=bench.out) as lab:
        outcome = Campaign(lab, fabric, SEED, said.append).run(ROUNDS)
    print("\n".join(said), file=sys.stderr)
    assert len(outcome.seconds) == ROUNDS


@pytest.mark.switches
def test_a_rule_that_goes_missing_fails_the_round_with_its_seed_and_steps(bench: Bench, monkeypatch) -> None:
    monkeypatch.setattr("emulation.faults.campaign.RIGHT_WITHIN", 5.0)
    fabric = clos(2, 2, 1)
    with Lab(fabric, out=bench.out) as lab:

        def sabotaged(world: World) -> list[Piece]:
            """Before every look, and not at some moment: whatever the controller does, the rules are gone."""
            lab.ofctl("del-flows", "spine1", "ip")
            return settled(world)

        settled = check.settled
        monkeypatch.setattr("emulation.faults.campaign.check.settled", sabotaged)
        with pytest.raises(Failed, match=r"seed 5, start.*\n(.*\n)*.*spine1: missing 0 900"):
            Campaign(lab, fabric, 5, lambda text: None).run(3)
