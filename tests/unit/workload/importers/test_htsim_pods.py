"""htsim's topologies of three tiers, read and written."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from controller.cli.main import app
from controller.model.errors import InputError
from controller.model.files.fabric_file import load_fabric, parse_fabric
from controller.model.files.pod_clos import pod_clos
from controller.workload.exporters.containerlab import containerlab_document
from controller.workload.importers.htsim import read
from controller.workload.importers.htsim.topology import write_topology
from tests.unit.workload.importers.texts import read_text


@given(
    sizes=st.tuples(*(st.integers(1, 4) for _ in range(5))),
    parallel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    gbps=st.tuples(*(st.sampled_from([1, 25, 100, 400]) for _ in range(3))),
)
def test_a_fabric_of_three_layers_written_for_htsim_and_read_again_is_the_same(
    sizes: tuple[int, int, int, int, int], parallel: tuple[int, int], gbps: tuple[int, int, int]
) -> None:
    fabric = pod_clos(
        *sizes,
        host_gbps=gbps[0],
        uplink_gbps=gbps[1],
        core_gbps=gbps[2],
        parallel=parallel[0],
        core_parallel=parallel[1],
    )
    imported = read_text(read, write_topology(fabric))
    assert imported.fabric is not None
    assert parse_fabric(dict(imported.fabric)) == fabric


def test_fabrics_of_three_layers_that_htsim_cannot_build_are_refused() -> None:
    fabric = pod_clos(2, 2, 2, 2, 1)
    fewer = dataclasses.replace(fabric, cables=fabric.cables[:-1])
    turned = dataclasses.replace(fabric, layers=(*fabric.layers[:2], fabric.layers[2][::-1]))
    mixed = dataclasses.replace(fabric, cables=(dataclasses.replace(fabric.cables[0], gbps=40.0), *fabric.cables[1:]))
    for bad, reason in [
        (fabric.without_links(["core1"]), "failed links"),
        (fewer, "pods of the same cables"),
        (turned, "core c at aggregation switch c mod 2"),
        (mixed, "one speed"),
    ]:
        with pytest.raises(InputError, match=reason):
            write_topology(bad)


PODS = write_topology(pod_clos(2, 2, 2, 2, 4, core_parallel=2))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("Podsize 8", "Podsize 7", "Podsize 7.*16 nodes are not a multiple"),
        ("Podsize 8", "Podsize 4", "1 leaves with 1 cables each"),
        ("Radix_Up 4", "Radix_Up 3", "not a multiple of the cores' bundle of 2"),
        ("Bundle 2", "Bundle 4", "2 pods with 4 cables each to a core make 8"),
        ("Tiers 3", "Tiers 2", "the tiers must be 0 and 1"),
    ],
)
def test_a_topology_of_three_tiers_that_does_not_fit_together_is_refused(old: str, new: str, reason: str) -> None:
    assert old in PODS
    with pytest.raises(InputError, match=reason):
        read_text(read, PODS.replace(old, new), "ours.topo")


def test_a_fabric_of_three_layers_is_written_for_containerlab_with_its_roles() -> None:
    fabric = pod_clos(2, 1, 2, 1, 1)
    topology = containerlab_document(fabric, "lab", "linux", "image")["topology"]
    assert Counter(node.get("group") for node in topology["nodes"].values()) == {
        "leaf": 2,
        "aggregation": 4,
        "core": 2,
        None: 2,
    }
    assert len(topology["links"]) == len(fabric.cables) + fabric.n_hosts


def test_the_table_of_an_imported_fabric_counts_all_layers(tmp_path: Path) -> None:
    file = tmp_path / "a.topo"
    file.write_text(PODS)
    result = CliRunner().invoke(app, ["import", "htsim", str(file), "--out", str(tmp_path / "fabric.yaml")])
    assert result.exit_code == 0, result.output
    assert load_fabric(tmp_path / "fabric.yaml") == pod_clos(2, 2, 2, 2, 4, core_parallel=2)
    assert "aggregation switches" in result.output
