"""Labels: one for each switch and cable, none of them two things."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Fabric, Switch
from controller.model.files.clos import clos
from controller.southbound.enforcement.labels import END_OF_LABELS, PART, LabelBlock
from tests.unit.southbound.plans import patchy_fabrics


@given(base=st.integers(16, 1000), parallel=st.integers(1, 4), a=st.integers(0, PART - 1), b=st.integers(0, PART - 1))
def test_no_two_spines_leaves_or_cables_have_the_same_label(base: int, parallel: int, a: int, b: int) -> None:
    block = LabelBlock(base)
    labels = [block.leaf(i, number) for i in {a, b} for number in range(parallel)]
    labels += [block.spine(i) for i in {a, b}]
    assert len(set(labels)) == len(labels)
    assert min(labels) >= base


@given(fabric=patchy_fabrics())
def test_paths_that_differ_have_different_stacks(fabric: Fabric) -> None:
    block = LabelBlock()
    for b in range(fabric.n_leaves):
        stacks = {block.stack(fabric, 0, b, path) for path in range(fabric.n_paths)}
        assert len(stacks) == fabric.n_paths


@pytest.mark.parametrize("base", [0, 15, -1, END_OF_LABELS - 2 * PART + 1])
def test_a_block_outside_the_range_of_labels_is_refused(base: int) -> None:
    with pytest.raises(InputError, match="label_base") as error:
        LabelBlock(base).check(clos(2, 2, 1))
    assert error.value.value == base


def test_the_first_and_the_last_block_that_fit_are_accepted() -> None:
    for base, fabric in ((16, clos(2, 2, 1)), (END_OF_LABELS - 4 * PART, clos(2, 2, 1, parallel=3))):
        LabelBlock(base).check(fabric)


def test_more_switches_than_a_part_of_the_block_holds_are_refused() -> None:
    spines = tuple(Switch(f"spine{j}", j) for j in range(PART + 1))
    with pytest.raises(InputError, match="4096 spines"):
        LabelBlock().check(dataclasses.replace(clos(1, 1, 1), layers=(clos(1, 1, 1).leaves, spines), cables=()))
