"""Packed documents and arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.routing import PreviousPlan
from controller.store.codec import DamagedError, pack, pack_paths, pack_ports, unpack, unpack_paths, unpack_ports
from tests.unit.store.kept import PORTS, paths, plain


@given(st.lists(st.binary(max_size=200), max_size=4))
def test_what_is_packed_comes_back(sections: list[bytes]) -> None:
    assert unpack(pack(sections), len(sections)) == sections


@given(paths())
def test_paths_come_back_bit_for_bit(given_paths: PreviousPlan) -> None:
    assert plain(unpack_paths(pack_paths(given_paths))) == plain(given_paths)


@given(PORTS)
def test_ports_come_back(ports: np.ndarray) -> None:
    assert plain(unpack_ports(pack_ports(ports))) == plain(ports)


@given(paths(), st.data())
def test_damaged_bytes_are_noticed(given_paths: PreviousPlan, data: st.DataObject) -> None:
    packed = bytearray(pack_paths(given_paths))
    at = data.draw(st.integers(0, len(packed) - 1))
    how = data.draw(st.sampled_from(["change", "cut", "lengthen"]))
    if how == "change":
        packed[at] ^= data.draw(st.integers(1, 255))
    elif how == "cut":
        del packed[at:]
    else:
        packed += data.draw(st.binary(min_size=1, max_size=30))
    try:
        found = unpack_paths(bytes(packed))
    except DamagedError:
        return
    # zlib's own header has bits that mean nothing; all others are covered by lengths and checksums.
    assert plain(found) == plain(given_paths)


@given(st.binary(max_size=200))
def test_any_other_bytes_are_one_clear_error(data: bytes) -> None:
    with pytest.raises(DamagedError):
        unpack_paths(data)
    with pytest.raises(DamagedError):
        unpack_ports(b"fs1" + data)


def test_a_part_that_grows_beyond_its_stated_length_is_not_unpacked() -> None:
    packed = bytearray(pack([bytes(10_000_000)]))
    packed[3:11] = (5).to_bytes(8, "little")
    with pytest.raises(DamagedError, match="length"):
        unpack(bytes(packed), 1)


def test_a_plan_of_a_regular_fabric_takes_a_few_bytes_a_flow() -> None:
    flows, hosts = 100_000, 2048
    rng = np.random.default_rng(1)
    key = np.sort((rng.integers(0, hosts, flows) << 40) | (rng.integers(0, hosts, flows) << 16) | 49152)
    names = tuple(f"h{i}" for i in range(hosts)), tuple(f"spine{i}" for i in range(32))
    packed = pack_paths(PreviousPlan(*names, key, rng.integers(0, 32, flows).astype(np.int32), np.ones(flows)))
    assert len(packed) < 4 * flows


@pytest.mark.parametrize("names", [b"[]", b"{}", b"\xff", b'{"hosts": 1, "paths": []}'])
def test_paths_without_names_are_damaged(names: bytes) -> None:
    with pytest.raises(DamagedError):
        unpack_paths(pack([names, b"", b"", b""]))


def test_arrays_of_different_lengths_are_damaged() -> None:
    names = b'{"hosts": [], "paths": []}'
    with pytest.raises(DamagedError):
        unpack_paths(pack([names, bytes(8), b"", b""]))
    with pytest.raises(DamagedError, match="ends within an item"):
        unpack_paths(pack([names, bytes(7), b"", b""]))
