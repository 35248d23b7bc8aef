"""Shares, lines of JSON, what a measurement is asked for."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from emulation.roce.client import SendOrder
from emulation.roce.lines import LineBuffer, LineError, to_line
from emulation.roce.shares import check_shares, split

WEIGHTS = st.lists(st.floats(0.001, 1.0), min_size=1, max_size=8)


@given(st.integers(0, 10**12), WEIGHTS)
def test_pieces_cover_every_byte_once_in_order_and_keep_to_their_shares(length: int, weights: list[float]) -> None:
    shares = [weight / sum(weights) for weight in weights]
    pieces = split(length, shares)
    assert pieces[0][0] == 0
    assert pieces[-1][1] == length
    assert all(end == start for (_, end), (start, _) in pairwise(pieces))
    for (start, end), share in zip(pieces, shares, strict=True):
        assert abs((end - start) - share * length) <= 1.01 + length * 1e-12


@pytest.mark.parametrize("shares", [[0.5], [0.5, 0.6], [1.5, -0.5], [0.0, 1.0], []])
def test_shares_that_do_not_make_a_whole_are_refused(shares: list[float]) -> None:
    with pytest.raises(InputError, match="shares"):
        check_shares(shares)


JSON = st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.integers()), max_size=4)


@given(st.lists(JSON, max_size=5), st.integers(1, 20))
def test_lines_cut_anywhere_give_the_objects_that_were_written(values: list[dict[str, Any]], size: int) -> None:
    data = b"".join(map(to_line, values))
    lines = LineBuffer()
    read = [value for at in range(0, len(data), size) for value in lines.feed(data[at : at + size])]
    assert read == values


@given(st.binary(max_size=50))
def test_lines_that_are_no_json_objects_are_refused(data: bytes) -> None:
    lines = LineBuffer()
    try:
        values = lines.feed(data + b"\n")
    except LineError:
        return
    assert values == [json.loads(line) for line in data.split(b"\n") if line.strip()]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"udp_src": []}, "udp_src"),
        ({"udp_src": [1, 1]}, "udp_src"),
        ({"shares": [1.0]}, "shares"),
        ({"shares": [0.3, 0.3]}, "shares"),
        ({"message_bytes": 0}, "message_bytes"),
        ({"message_bytes": 1}, "message_bytes"),
        ({"bytes": 0}, "bytes"),
        ({"seconds": 0.0}, "seconds"),
    ],
)
def test_a_measurement_that_makes_no_sense_is_refused_by_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        SendOrder(**{"udp_src": [50000, 50001], **change})
    assert caught.value.field == field
