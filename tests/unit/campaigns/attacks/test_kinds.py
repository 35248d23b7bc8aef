"""Draws of a campaign: every attack occurs, equal seeds give equal attacks, rounds are independent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.campaigns.attacks.kinds import BY_NAME, KINDS, OPEN, drawn, each_once
from tests.campaigns.attacks.rogue import attacks


def test_every_kind_has_an_attack_and_every_attack_a_kind() -> None:
    assert set(BY_NAME) == set(attacks())
    assert len(BY_NAME) == len(KINDS) + len(OPEN)


@given(st.integers(0, 1000))
def test_as_many_rounds_as_there_are_kinds_draw_each(seed: int) -> None:
    rounds = [drawn(seed, number) for number in range(1, len(KINDS) + 1)]
    assert {kinds[0] for kinds in rounds} == set(KINDS)
    assert any(len(kinds) == 2 for kinds in rounds)


@given(st.integers(0, 1000), st.integers(1, 500))
def test_a_round_is_drawn_from_the_seed_and_its_number_alone(seed: int, number: int) -> None:
    assert drawn(seed, number) == drawn(seed, number)
    assert len({kind.by for kind in drawn(seed, number)}) == len(drawn(seed, number))


@given(st.integers(0, 1000))
def test_the_short_form_has_every_kind_once_and_those_that_play_a_switch_by_themselves(seed: int) -> None:
    rounds = each_once(seed)
    names = [kind.name for kinds in rounds for kind in kinds]
    assert sorted(names) == sorted(kind.name for kind in KINDS)
    assert all(1 <= len(kinds) <= 4 for kinds in rounds)
    # Rules on honest switches are compared during an attack only where no switch is away.
    assert all(len({kind.away for kind in kinds}) == 1 for kinds in rounds)
