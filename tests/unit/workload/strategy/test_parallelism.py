"""Groups of ranks, held against a second way to find them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.workload.strategy.parallelism import DIMENSIONS, Parallelism, checked, parse_order

SIZES = st.integers(1, 4)
ORDERS = st.permutations(DIMENSIONS).map(tuple)


@st.composite
def strategies(draw: st.DrawFn) -> Parallelism:
    """Any that comes out even; pp last, so that experts' pipelines are the others' for certain."""
    tp, cp, dp, pp = draw(SIZES), draw(SIZES), draw(SIZES), draw(SIZES)
    rest = tp * cp * dp
    etp = draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0]))
    ep = draw(st.sampled_from([d for d in range(1, rest + 1) if rest // etp % d == 0 and rest % (etp * d) == 0]))
    order = (*(name for name in draw(ORDERS) if name != "pp"), "pp")
    return Parallelism(tp=tp, cp=cp, dp=dp, pp=pp, ep=ep, etp=etp, order=order)


def by_coordinates(sizes: dict[str, int], order: tuple[str, ...], inside: tuple[str, ...]) -> list[list[int]]:
    """Ranks by the coordinates they do not share, each rank's number taken apart digit by digit."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank in range(math.prod(sizes.values())):
        rest, key = rank, []
        for name in order:
            rest, digit = divmod(rest, sizes[name])
            if name not in inside:
                key.append(digit)
        groups.setdefault(tuple(key), []).append(rank)
    return [groups[key] for key in sorted(groups, key=lambda key: key[::-1])]


INSIDE = st.lists(st.sampled_from(DIMENSIONS), min_size=1, max_size=3, unique=True)


@given(p=strategies(), inside=INSIDE)
def test_groups_are_those_found_by_taking_rank_numbers_apart(p: Parallelism, inside: list[str]) -> None:
    dense = {"tp": p.tp, "cp": p.cp, "ep": 1, "dp": p.dp, "pp": p.pp}
    expert = {"tp": p.etp, "cp": 1, "ep": p.ep, "dp": p.edp, "pp": p.pp}
    assert p.groups(*inside).tolist() == by_coordinates(dense, p.order, tuple(inside))
    assert p.expert_groups(*inside).tolist() == by_coordinates(expert, p.order, tuple(inside))


@given(p=strategies(), inside=INSIDE)
def test_groups_of_some_dimensions_share_the_ranks_out_evenly(p: Parallelism, inside: list[str]) -> None:
    dense = {"tp": p.tp, "cp": p.cp, "ep": 1, "dp": p.dp, "pp": p.pp}
    groups = p.groups(*inside)
    assert groups.shape[1] == math.prod(dense[name] for name in inside)
    assert sorted(groups.ravel().tolist()) == list(range(p.ranks))
    assert sorted(p.expert_groups(*inside).ravel().tolist()) == list(range(p.ranks))


@given(p=strategies())
def test_pipelines_of_experts_are_those_of_the_rest_and_give_each_rank_its_stage(p: Parallelism) -> None:
    assert checked(p, p.ranks, n_experts=p.ep * 2, layers=p.pp) == p
    assert p.groups("pp").tolist() == p.expert_groups("pp").tolist()
    assert all(p.stage()[ranks].tolist() == list(range(p.pp)) for ranks in p.groups("pp"))


def test_groups_are_those_of_megatrons_own_example() -> None:
    # 16 ranks, tp 2, pp 4: the docstring of initialize_model_parallel in megatron/core/parallel_state.py.
    p = Parallelism(tp=2, dp=2, pp=4)
    assert p.groups("dp").tolist()[:4] == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert p.groups("tp").tolist()[:2] == [[0, 1], [2, 3]]
    assert p.groups("pp").tolist() == [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]]


def test_expert_groups_lie_across_tensor_and_context_groups_where_etp_is_one() -> None:
    p = Parallelism(tp=2, cp=2, dp=2, ep=4, etp=1)
    assert p.edp == 2
    assert p.expert_groups("ep").tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert p.expert_groups("dp").tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert p.groups("cp", "dp").tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]


ONES = dict.fromkeys(DIMENSIONS, 1)


def test_dimensions_that_an_order_leaves_out_come_last() -> None:
    assert parse_order("tp-pp-dp", ONES) == ("tp", "pp", "dp", "cp", "ep")
    # Megatron's other order: neighbours in the pipeline are next to each other.
    p = Parallelism(tp=2, pp=2, dp=2, order=parse_order("tp-pp-dp", ONES))
    assert p.groups("pp").tolist() == [[0, 2], [1, 3], [4, 6], [5, 7]]


@pytest.mark.parametrize(
    ("given_", "n_ranks", "experts", "layers", "says"),
    [
        ({"tp": 8, "pp": 8, "dp": 4}, 128, 0, 96, "tp 8 x cp 1 x dp 4 x pp 8 = 256 ranks; the job has 128 hosts"),
        ({"dp": 4, "ep": 4}, 4, 0, 96, "parallelism.ep: 4: the model has no experts"),
        ({"dp": 3, "ep": 3}, 3, 8, 96, "parallelism.ep: 3: the model's 8 experts cannot be divided evenly"),
        ({"tp": 2, "dp": 4, "ep": 8, "etp": 2}, 8, 8, 96, "etp 2 x ep 8 = 16 does not divide tp x cp x dp = 8"),
        ({"pp": 4, "vpp": 3}, 4, 0, 8, "pp 4 x vpp 3 = 12 stages; the model has 8 layers"),
        ({"vpp": 2}, 1, 0, 8, "parallelism.vpp: 2: pp is 1, so there is no pipeline"),
        (
            {"tp": 2, "sequence_parallel": False},
            2,
            8,
            8,
            "parallelism.sequence_parallel: False: required for experts with tensor",
        ),
        (
            {"tp": 2, "cp": 2, "pp": 2, "ep": 2, "etp": 2, "order": ("tp", "cp", "pp", "ep", "dp")},
            8,
            8,
            8,
            "need the same pipelines: put pp last",
        ),
        (
            {"dp": 4, "ep": 2, "pp": 2, "order": ("tp", "cp", "pp", "ep", "dp")},
            8,
            8,
            8,
            "parallelism.order: 'tp-cp-pp-ep-dp': the experts' part (etp 1 x ep 2 x edp 2) and the rest",
        ),
    ],
)
def test_uneven_divisions_are_refused_with_their_numbers(
    given_: dict[str, Any], n_ranks: int, experts: int, layers: int, says: str
) -> None:
    with pytest.raises(InputError) as error:
        checked(Parallelism(**given_), n_ranks, experts, layers)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ("tp-xp", "'xp' is not one of tp, cp, ep, dp, pp"),
        ("tp-dp-tp", "is given twice"),
        ("", "'' is not one of"),
        ("tp-cp-ep-dp", "pp, which is 2, is missing"),
    ],
)
def test_an_order_of_other_words_is_reported(order: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_order(order, ONES | {"pp": 2})


@given(p=strategies())
def test_expert_data_groups_hold_ranks_with_equal_stages(p: Parallelism) -> None:
    stage = p.stage()
    for groups in (p.expert_groups("dp"), p.expert_groups("ep"), p.groups("cp", "dp"), p.groups("tp")):
        assert np.array_equal(stage[groups], np.broadcast_to(stage[groups[:, :1]], groups.shape))
