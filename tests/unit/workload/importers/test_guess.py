"""The format of a file is detected by its content."""

from __future__ import annotations

import json
import pickle
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from controller.cli.main import main
from controller.model.errors import InputError
from controller.workload.importers import registry
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.guess import guess_head
from controller.workload.importers.head import Head

ROOT = Path(__file__).parents[4]


def said(capsys: pytest.CaptureFixture[str], *files: Path) -> list[dict[str, str]]:
    with pytest.raises(SystemExit) as end:
        main(["import", "--guess", *(str(file) for file in files), "--format", "json"])
    assert not end.value.code
    rows: list[dict[str, str]] = json.loads(capsys.readouterr().out)
    return rows


EXAMPLES = [
    ("nccl/rank0.log", "nccl"),
    ("kineto/rank0.json", "kineto"),
    ("flight-recorder/rank0.json", "flight-recorder"),
    ("nccl-tests/all_reduce.txt", "nccl-tests"),
    ("goal/two-layers.goal", "goal"),
    ("aicb/gpus.csv", "aicb"),
    ("nccl/topology.xml", ""),
    ("gpt3-a.json", ""),
    ("gpt3-175b-tp8-pp8-dp4.yaml", ""),
    ("clos-4x4x4.yaml", ""),
]


@pytest.mark.parametrize(("file", "kind"), EXAMPLES)
def test_examples_are_recognised(capsys: pytest.CaptureFixture[str], file: str, kind: str) -> None:
    (row,) = said(capsys, ROOT / "examples" / file)
    assert row["format"] == kind
    assert row["holds"]


REAL = [
    ("csg-htsim/one.cm", "htsim"),
    ("csg-htsim/leaf_spine_tiny.topo", "htsim"),
    ("aicb/all_reduce.txt", "aicb"),
    ("astra-sim/all_reduce_4npus_1MB.0.et", "chakra"),
    ("param/linear_et.json.gz", "chakra"),
    ("param/dlrm_pytorch_et.tar.gz", "chakra"),
    ("hta/nccl_data.json.gz", "kineto"),
    ("nccl-logs/p5-2x8h100-v2.22.3.log.gz", "nccl"),
    ("nccl-logs/rccl-1026-excerpt.log", "nccl"),
    ("dcn-simulators/topology.properties", "traffic-pairs"),
    ("azhpc-images/ndv4-topo.xml", ""),
    ("aws-ofi-nccl/p4d-24xl-topo.xml", ""),
    ("astra-sim/hgx_h100_16gpu.json", ""),
    ("astra-sim/sample_16nodes_1D.json", ""),
    ("lingjun/topo.csv", ""),
    ("topoopt/100vgg_16.fbuf", "taskgraph"),
    ("goal/adv16.bin", "goal"),
    ("goal/perm64.goal", "goal"),
    ("ns3/hpcc-fat.txt", "ns3"),
    ("ns3/hpcc-flow.txt", "ns3"),
    ("slurm/topology.conf", "slurm"),
    ("containerlab/clos01.clab.yml", "containerlab"),
    ("astra-network-analytical/Switch.yml", "astra-network"),
    ("aicb/L7B-D1-C01_Llama7B_zero2_mbs1.csv", "aicb"),
]


@pytest.mark.parametrize(("file", "kind"), REAL)
def test_other_projects_files_are_recognised(
    shared_data: Path, capsys: pytest.CaptureFixture[str], file: str, kind: str
) -> None:
    for row in said(capsys, shared_data / file):
        assert row["format"] == kind
        assert row["holds"]


def test_an_nccl_topology_is_named_with_the_option_that_takes_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "topo.xml"
    file.write_text('<system version="1"><cpu numaid="0"></cpu></system>')
    assert "use --topology" in said(capsys, file)[0]["holds"]


def test_a_pickle_is_named_as_one() -> None:
    assert "a Python pickle" in guess_head(Head("x", pickle.dumps([1]))).holds


def test_a_file_that_nothing_is_known_about_exits_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "what"
    file.write_text("nothing of the kind\n")
    with pytest.raises(SystemExit) as end:
        main(["import", "--guess", str(file)])
    assert end.value.code == 2
    assert "what: unknown format" in capsys.readouterr().err


class _Entry:
    """An entry point whose module is not installed."""

    def __init__(self, name: str, module: ModuleType | None) -> None:
        self.name, self.value, self.module = name, "elsewhere.mine", module

    def load(self) -> ModuleType:
        if self.module is None:
            raise ImportError("no module named elsewhere")
        return self.module


def plugged(monkeypatch: pytest.MonkeyPatch, *entries: _Entry) -> None:
    def found(group: str) -> list[EntryPoint]:
        assert group == "fairspine.importers"
        return list(entries)  # type: ignore[arg-type]

    monkeypatch.setattr(registry, "entry_points", found)
    registry.formats.cache_clear()


@pytest.fixture(autouse=True)
def fresh():  # type: ignore[no-untyped-def]
    yield
    registry.formats.cache_clear()


def test_a_plug_in_is_a_format_like_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("elsewhere.mine")
    answer = object()
    module.read = lambda sources, request: answer  # type: ignore[attr-defined]
    module.looks_like = lambda head: "mine" if head.data == b"mine" else ""  # type: ignore[attr-defined]
    plugged(monkeypatch, _Entry("mine", module), _Entry("nccl", module))
    assert registry.importer("mine")([], ImportRequest()) is answer
    assert guess_head(Head("x", b"mine")).format == "mine"
    # No plug-in takes the place of a format of the project.
    assert registry.importer("nccl").__module__ == "controller.workload.importers.nccl"


def test_a_plug_in_that_cannot_be_loaded_is_an_error_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    plugged(monkeypatch, _Entry("mine", None), _Entry("empty", ModuleType("empty")))
    with pytest.raises(InputError, match=r"format: 'mine': the plug-in elsewhere.mine cannot be loaded: ImportError"):
        registry.importer("mine")
    with pytest.raises(InputError, match="has no function 'read'"):
        registry.importer("empty")
    with pytest.raises(InputError, match=r"there are nccl, .*mine"):
        registry.importer("none")


def test_the_help_of_import_lists_every_format(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main(["import", "--help"])
    text = capsys.readouterr().out
    assert [name for name in registry.FORMATS if f"{name}," not in text] == []
