"""Error messages of switches as text, for any content."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller import ryu_compat
from tests.fake_switch.decode import PROTOCOL

ryu_compat.prepare()

from controller.southbound.openflow.enforcing import refusals  # noqa: E402


def read(body: bytes) -> Any:
    """An error message with this body (type, code, data), as Ryu reads it."""
    data = bytes((4, ofp.OFPT_ERROR)) + (8 + len(body)).to_bytes(2, "big") + bytes(4) + body
    return parser.msg_parser(PROTOCOL, 4, ofp.OFPT_ERROR, len(data), 0, data)


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.binary(min_size=4, max_size=64))
def test_every_error_has_words_a_kind_and_a_type(kind: int, code: int, data: bytes) -> None:
    error = read(kind.to_bytes(2, "big") + code.to_bytes(2, "big") + data)
    assert refusals.describe(error)
    assert refusals.kind_of(error)
    assert refusals.type_of(error)


def test_an_experimenters_error_names_the_experimenter() -> None:
    error = read(ofp.OFPET_EXPERIMENTER.to_bytes(2, "big") + bytes((0, 7)) + bytes((0, 0, 0x23, 0x20)))
    assert refusals.describe(error) == "OFPET_EXPERIMENTER(65535), of experimenter 0x2320"


@pytest.mark.parametrize(("kind", "code"), [(5, 1), (6, 3)])
def test_a_known_error_has_its_names(kind: int, code: int) -> None:
    error = read(kind.to_bytes(2, "big") + code.to_bytes(2, "big") + bytes(8))
    assert "Unknown" not in refusals.describe(error)
