"""Aliases of YAML files may save typing, and not more than that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.files.fabric_file import load_fabric, read_document
from controller.workload.importers.documents import yaml_document
from controller.workload.importers.streams import text_source
from tests.unit.laws import examples


def nested(levels: int, width: int, form: str = "[{}]") -> str:
    """A document in which each line has the one before ``width`` times."""
    rows = ["a0: &a0 {x: 1}"]
    rows += [f"a{i}: &a{i} " + form.format(", ".join([f"*a{i - 1}"] * width)) for i in range(1, levels + 1)]
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize("text", [nested(9, 9), nested(60, 9), nested(9, 9, "{{<<: [{}]}}"), nested(3, 2000)])
def test_aliases_that_stand_for_too_many_values_are_refused_at_once(tmp_path: Path, text: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    for read in (read_document, load_fabric):
        with pytest.raises(InputError, match=r"file\.yaml: its aliases stand for too many values: .* are written$"):
            read(file)
    with pytest.raises(InputError, match=r"^file\.yaml: its aliases stand for too many values"):
        yaml_document(text_source("file.yaml", text))


@settings(deadline=None, max_examples=examples(15, 90))
@given(levels=st.integers(1, 4), width=st.integers(1, 8))
def test_few_aliases_are_read(tmp_path_factory: pytest.TempPathFactory, levels: int, width: int) -> None:
    expected: Any = {"x": 1}
    for _ in range(levels):
        expected = [expected] * width
    file = tmp_path_factory.mktemp("yaml") / "file.yaml"
    file.write_text(nested(levels, width))
    assert read_document(file)[f"a{levels}"] == expected
    assert yaml_document(text_source("file", nested(levels, width)))[f"a{levels}"] == expected


def test_a_long_list_of_hosts_may_be_used_many_times(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    hosts = ", ".join(f"h{i}" for i in range(20_000))
    file.write_text(f"hosts: &all [{hosts}]\nothers: [{', '.join(['*all'] * 10)}]\n")
    assert len(read_document(file)["others"][9]) == 20_000


def test_a_value_within_itself_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("switches: 1\nclos: &a\n  - [*a]\n")
    with pytest.raises(InputError, match=r"file.yaml: .*line 2"):
        read_document(file)
