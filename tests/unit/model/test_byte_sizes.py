"""Numbers of bytes as people write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.texts.byte_sizes import byte_count
from controller.workload.job_file import load_job, parse_job

UNITS = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@given(st.integers(0, 2**20), st.sampled_from(sorted(UNITS)), st.sampled_from(["", " "]))
def test_a_unit_multiplies(number: int, unit: str, between: str) -> None:
    assert byte_count(f"{number}{between}{unit}") == number * UNITS[unit]
    assert byte_count(f"{number}{between}{unit.lower()}") == number * UNITS[unit]


@pytest.mark.parametrize(("text", "count"), [("100e9", 10**11), ("1.5GiB", 3 * 2**29), ("1E3 kB", 10**6)])
def test_exponents_and_decimals_are_exact(text: str, count: int) -> None:
    assert byte_count(text) == count


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1GX", "1..5GB", "0.5B", "1e-3GB", "0x10", "nan", "iB", "1 iB"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="number of bytes"):
        byte_count(text)


@given(st.floats())
def test_a_number_of_bytes_is_taken_as_it_is_or_refused(number: float) -> None:
    if number.is_integer():
        count = byte_count(number)
        assert type(count) is int
        assert count == number
    else:
        with pytest.raises(ValueError, match="whole number of bytes"):
            byte_count(number)


def ring(size: object) -> dict[str, object]:
    return {
        "name": "a",
        "hosts": ["h1", "h5"],
        "collectives": [{"name": "c", "op": "all_reduce", "algorithm": "ring", "ranks": [0, 1], "bytes": size}],
    }


@pytest.mark.parametrize("size", ["1GB", "1e9", 10**9, 1e9, "1 000".replace(" ", "") + "MB"])
def test_a_job_file_takes_sizes_wherever_it_takes_bytes(size: object, tmp_path: Path) -> None:
    assert parse_job(ring(size)).collectives[0].bytes == 10**9
    flows = parse_job({"name": "a", "flows": [{"src": "h1", "dst": "h2", "bytes": size}]})
    matrix = parse_job({"name": "a", "matrix": {"hosts": ["h1", "h2"], "bytes": [[0, size], [0, 0]]}})
    assert flows.flows.bytes.tolist() == [10**9]
    assert matrix.matrix is not None
    assert matrix.matrix.bytes[0, 1] == 10**9
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(ring("SIZE")).replace('"SIZE"', str(size)))
    assert load_job(file).collectives[0].bytes == 10**9


def test_a_wrong_size_names_the_field_and_the_value() -> None:
    with pytest.raises(InputError, match=r"collectives\[0\]\.bytes: '1 byte': must be a number of bytes") as caught:
        parse_job(ring("1 byte"))
    assert caught.value.value == "1 byte"
