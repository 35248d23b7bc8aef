"""Topologies of Slurm, in each of its forms, become leaves with their nodes."""

from __future__ import annotations

import pytest

from controller.model.errors import InputError
from controller.workload.importers.guess import guess
from controller.workload.importers.streams import text_source
from controller.workload.placement.host_lists import expand as names_of
from tests.unit.workload.importers.fabrics.reading import (
    fabric,
    read,
)

TREE = """- topology: other
  block: {block_sizes: [4], blocks: [{block: b1, nodes: "n[1-4]"}]}
- topology: used
  cluster_default: true
  tree:
    switches:
      - {switch: root, children: "s[1-2]"}
      - {switch: s1, nodes: "n[01-02]"}
      - {switch: s2, nodes: "n[03-04],m1"}
"""


BLOCKS = "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-6]\nBlockSizes=2,4\n"


@pytest.mark.parametrize(
    ("text", "leaves", "warning"),
    [
        (TREE, {"s1": ["n01", "n02"], "s2": ["n03", "n04", "m1"]}, "the file has no cables"),
        (TREE.replace("true", "false"), {"b1": [f"n{i}" for i in range(1, 5)]}, "the file has 1 blocks"),
        (BLOCKS, {"b1": [f"n{i}" for i in range(1, 5)], "b2": ["n5", "n6"]}, "the file has 2 blocks"),
    ],
)
def test_topologies_of_slurm_in_yaml_and_of_blocks_are_leaves(
    text: str, leaves: dict[str, list[str]], warning: str
) -> None:
    imported = read("slurm", text)
    below: dict[str, list[str]] = {}
    for host in fabric(imported).hosts:
        below.setdefault(host.leaf, []).append(host.name)
    assert below == leaves
    assert warning in imported.warnings[0]
    assert [row.format for row in guess([text_source("topology", text)])] == ["slurm"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", ["a"]),
        ("a[1-3,07]", ["a1", "a2", "a3", "a07"]),
        ("n[09-11],m", ["n09", "n10", "n11", "m"]),
        ("r[1-2]n[1-2]x", ["r1n1x", "r1n2x", "r2n1x", "r2n2x"]),
    ],
)
def test_slurms_lists_of_names_are_written_out(text: str, expected: list[str]) -> None:
    assert names_of(text) == expected


@pytest.mark.parametrize("text", ["a[1-", "a[3-1]", "a[x]", "a[1-99999999]", "a[1-99999]b[1-99999]"])
def test_lists_of_names_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"(is not a|there are more than)"):
        names_of(text)
