"""NCCL's topology files say which NIC a GPU uses."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from controller.cli.main import main
from controller.model.errors import InputError
from controller.workload.importers.nccl_topology import Rails, load_rails, parse_rails
from controller.workload.importers.streams import text_source

EXAMPLES = Path(__file__).parents[5] / "examples"


def test_gpus_below_one_bridge_share_its_nic() -> None:
    assert load_rails(EXAMPLES / "nccl" / "topology.xml") == Rails((0, 0, 1, 1), 2)


def test_devices_that_nccl_itself_wrote_are_in_their_own_order() -> None:
    gpu = '<pci busid="{0}" class="0x030200"><gpu dev="{1}"/></pci>'
    nic = '<pci busid="{0}" class="0x020700"><nic><net name="mlx5_{1}" dev="{1}"/></nic></pci>'
    bridges = "".join(
        f'<pci busid="b{i}" class="0x060400">{gpu.format(f"a{i}", 1 - i)}{nic.format(f"c{i}", i)}</pci>' for i in (0, 1)
    )
    text = f'<system version="1"><cpu numaid="0">{bridges}</cpu></system>'
    assert parse_rails(text_source("x.xml", text)) == Rails((1, 0), 2)


def test_the_command_places_ranks_by_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "job.json"
    fabric = tmp_path / "fabric.yaml"
    fabric.write_text("clos: {spines: 2, leaves: 2, hosts_per_leaf: 4, nics_per_server: 2}\n")
    arguments = ["import", "aicb", str(EXAMPLES / "aicb" / "gpus.csv"), "--out", str(out)]
    topology = ["--topology", str(EXAMPLES / "nccl" / "topology.xml")]
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--fabric", str(fabric), *topology])
    assert not end.value.code
    assert {row["src"] for row in json.loads(out.read_text())["flows"]} == {"h1", "h2", "h3", "h4"}
    with pytest.raises(SystemExit) as end:
        main([*arguments, *topology])
    assert end.value.code == 2
    assert "a topology needs --fabric" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<system", "is not XML"),
        ("<graphs/>", "is not an NCCL topology"),
        ('<system><cpu><pci class="0x030200"/></cpu></system>', "has 1 GPUs and 0 NICs"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><system/>', "has a document type"),
    ],
)
def test_what_is_no_topology_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse_rails(text_source("x.xml", text))


REAL = [
    # Eight GPUs and eight NICs, two of each below a bridge; four NICs that two GPUs share each.
    ("azhpc-images/ndv4-topo.xml", 8, 8),
    ("aws-ofi-nccl/p4d-24xl-topo.xml", 8, 4),
]


@pytest.mark.parametrize(("file", "gpus", "nics"), REAL)
def test_public_topologies_share_out_their_nics_evenly(shared_data: Path, file: str, gpus: int, nics: int) -> None:
    rails = load_rails(shared_data / file)
    assert (len(rails.nic), rails.n_nics) == (gpus, nics)
    assert Counter(rails.nic) == Counter(dict.fromkeys(range(nics), gpus // nics))
