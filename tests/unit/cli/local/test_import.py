"""``fairspine import``, as people and programs call it."""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from controller.cli.local.importing import _formats
from controller.cli.main import app, main
from controller.workload.importers.registry import FORMATS
from controller.workload.job_file import load_job
from tests.unit.workload.importers.nccl.nccl_logs import STYLES, Call, Cluster, logs

FABRIC = ["--fabric", str(Path(__file__).parents[4] / "examples" / "clos-4x4x4.yaml")]
CLUSTER = Cluster(2, 2, 2, ((0, 1, 2, 3), (1, 0, 3, 2)), ((-1, 0, 0, 2), (1, -1, 1, 2)), (Call("AllReduce", 1024),))

Run = Callable[..., tuple[object, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        return end.value.code or 0, *capsys.readouterr()

    return call


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = [tmp_path / f"rank{i}.log" for i in range(CLUSTER.n)]
    for path, text in zip(paths, logs(CLUSTER, STYLES[3]), strict=True):
        path.write_text(text)
    return [str(path) for path in paths]


def test_logs_become_a_job_that_is_planned(run: Run, files: list[str], tmp_path: Path) -> None:
    job = str(tmp_path / "job.json")
    code, out, err = run("import", "nccl", *files, *FABRIC, "--name", "logged", "--out", job)
    assert (code, err) == (0, "")
    assert all(word in out for word in ("logged", "ranks", "collectives", "12.29 kB", "note: the algorithm"))
    assert load_job(job).hosts == ("h1", "h2", "h3", "h4")
    code, out, _ = run("plan", *FABRIC, "--job", job, "--format", "json")
    assert code == 0
    # All four hosts are under one leaf.
    assert [row["id"] for row in json.loads(out)["flows"]] == [f"logged/c0-all_reduce/{i}" for i in range(4)]


def test_the_job_has_the_protocol_that_is_asked_for(run: Run, files: list[str]) -> None:
    code, out, _ = run("import", "nccl", *files, *FABRIC, "--protocol", "tcp")
    assert (code, json.loads(out)["protocol"]) == (0, "tcp")
    code, out, err = run("import", "nccl", *files, *FABRIC, "--protocol", "sctp")
    assert (code, out) == (2, "")
    assert err == "fairspine: protocol: 'sctp': is not one of roce, tcp, udp, any\n"


def test_the_job_goes_to_standard_output_and_the_summary_to_standard_error(run: Run, files: list[str]) -> None:
    for where in ([], ["--out", "-"]):
        code, out, err = run("import", "nccl", *files, *where)
        assert code == 0
        assert json.loads(out)["hosts"] == ["rank0", "rank1", "rank2", "rank3"]
        assert "groups" in err
        code, again, err = run("import", "nccl", *files, *where, "--format", "json")
        assert again == out
        summary = json.loads(err)
        assert (summary["ranks"], summary["groups"], summary["collectives"], summary["flows"]) == (4, 1, 1, 4)
        assert (summary["placed"], summary["bytes"]) == (False, 4 * 2 * 3 * 4096 // 4 // 2)


def test_yaml_by_its_suffix_and_json_say_the_same(run: Run, files: list[str], tmp_path: Path) -> None:
    for name in ("job.yaml", "job.json"):
        assert run("import", "nccl", *files, *FABRIC, "--out", str(tmp_path / name))[0] == 0
    assert yaml.safe_load((tmp_path / "job.yaml").read_text()) == json.loads((tmp_path / "job.json").read_text())


def test_compressed_files_and_archives_say_the_same(run: Run, files: list[str], tmp_path: Path) -> None:
    packed = tmp_path / "all.log.gz"
    packed.write_bytes(gzip.compress(b"".join(Path(file).read_bytes() for file in files)))
    archive = tmp_path / "logs.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        for file in files:
            content = Path(file).read_bytes()
            info = tarfile.TarInfo(f"../../{Path(file).name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    plain = run("import", "nccl", *files)[1]
    assert run("import", "nccl", str(packed))[1] == plain
    assert run("import", "nccl", str(archive))[1] == plain
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "all.log.gz",
        "logs.tgz",
        *(f"rank{i}.log" for i in range(4)),
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [("hosts.txt", "h5 h6\nh9\nh10\n"), ("hosts.yaml", "[h5, h6, h9, h10]"), ("hosts.json", '["h5","h6","h9","h10"]')],
)
def test_a_placement_may_be_a_file(run: Run, files: list[str], tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    code, out, _ = run("import", "nccl", *files, *FABRIC, "--placement", str(tmp_path / name))
    assert (code, json.loads(out)["hosts"]) == (0, ["h5", "h6", "h9", "h10"])


@pytest.mark.parametrize("method", ["in-order", "packed", "scattered", "random"])
def test_a_placement_may_be_computed_and_repeats_itself(run: Run, files: list[str], method: str) -> None:
    arguments = ("import", "nccl", *files, *FABRIC, "--placement", method, "--seed", "5")
    code, out, _ = run(*arguments)
    assert (code, len(set(json.loads(out)["hosts"]))) == (0, 4)
    assert run(*arguments)[1] == out


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("nics.yaml", "node0: {mlx5_0: h1, mlx5_1: h2}\nnode1: [h15, h16]\n"),
        ("nics.json", '{"node0": ["h1", "h2"], "node1": {"mlx5_0": "h15", "1": "h16"}}'),
        ("nics.csv", "server,nic,host\nnode0,0,h1\nnode0,mlx5_1,h2\n\nnode1,mlx5_0,h15\nnode1,mlx5_1,h16\n"),
    ],
)
def test_an_inventory_says_which_nic_is_which_host(
    run: Run, files: list[str], tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content)
    inventory = ["--inventory", str(tmp_path / name)]
    code, out, _ = run("import", "nccl", *files, *FABRIC, *inventory)
    assert (code, json.loads(out)["hosts"]) == (0, ["h1", "h2", "h15", "h16"])
    code, _, err = run("import", "nccl", *files, *FABRIC, *inventory, "--placement", "packed")
    assert (code, err) == (2, "fairspine: placement: 'packed': the input already gives the hosts of its ranks\n")


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("i.yaml", "[1]", "i.yaml: [1]: an inventory must be a mapping from servers to their NICs"),
        ("i.yaml", "node0: [h1, h99]", "i.yaml: node0[1]: 'h99': the fabric has no host of this name"),
        ("i.csv", "a,b,c\n", "i.csv: line 1: 'a,b,c': the header must be server,nic,host"),
        ("i.csv", "server,nic,host\nx,y\n", "i.csv: line 2: ['x', 'y']: a row must have 3 columns"),
        ("i.csv", "server,nic,host\nx,0,h1\nx,0,h2\n", "i.csv: line 3: 'x 0 h2': this NIC is already mapped to h1"),
    ],
)
def test_a_wrong_inventory_is_reported_with_its_line(
    run: Run, files: list[str], tmp_path: Path, name: str, content: str, error: str
) -> None:
    (tmp_path / name).write_text(content)
    code, out, err = run("import", "nccl", *files, *FABRIC, "--inventory", str(tmp_path / name))
    assert (code, out, err) == (2, "", f"fairspine: {tmp_path}/{error}\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["foo", "x"], "format: 'foo': no format has this name; there are nccl, nccl-tests, kineto, "),
        (["nccl", "/nowhere/x.log"], "/nowhere/x.log: no such file"),
        (["nccl", "/nowhere/x.log", "--fabric", "/nowhere/f.yaml"], "/nowhere/f.yaml: cannot be read: No such file"),
        (["nccl", "x", "--name", "a b"], "name: 'a b': "),
        (["nccl", "x", *FABRIC, "--placement", "best"], "placement: 'best': is neither a file nor one of in-order, "),
        (["nccl", "x", *FABRIC, "--placement", ""], "placement: '': is neither a file nor one of in-order, "),
        (["nccl", __file__], f"{__file__}: has no lines of NCCL"),
    ],
)
def test_what_cannot_be_used_is_one_line(run: Run, arguments: list[str], error: str) -> None:
    code, out, err = run("import", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"fairspine: {error}")
    assert err.count("\n") == 1


def test_what_does_not_fit_is_one_line_and_writes_nothing(run: Run, files: list[str], tmp_path: Path) -> None:
    out = tmp_path / "job.json"
    for arguments, error in (
        (["--placement", "packed"], "fairspine: placement: 'packed': a placement needs --fabric\n"),
        (["--fabric-out", str(tmp_path / "f.yaml")], "fairspine: fabric-out: the files contain no fabric\n"),
    ):
        assert run("import", "nccl", *files, *arguments, "--out", str(out)) == (2, "", error)
        assert not out.exists()
    code, said, err = run("import", "nccl", *files, "--out", str(tmp_path / "no" / "job.json"))
    assert (code, said) == (2, "")
    assert (
        err
        == f"fairspine: {tmp_path}/no/job.json: cannot be written: No such file or directory; make its folder first\n"
    )


def test_a_head_that_promises_more_flows_than_memory_holds_is_refused(run: Run, tmp_path: Path) -> None:
    head = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 all_gpus: 131072\n1\n"
    (tmp_path / "large.txt").write_text(f"{head}x -1 1 NONE 0 1 NONE 0 1 ALLTOALL 100 1\n")
    code, said, err = run("import", "aicb", str(tmp_path / "large.txt"), "--out", str(tmp_path / "job.json"))
    assert (code, said) == (2, "")
    assert err.startswith("fairspine: collectives: the number of its flows is 17179738112")
    assert not (tmp_path / "job.json").exists()


def test_only_a_terminal_shows_progress(run: Run, files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run("import", "nccl", *files)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, out, err = run("import", "nccl", *files)
    assert (code, out) == (0, plain[1])
    assert "\x1b" in err
    assert "\x1b" not in plain[2]


def test_the_shell_is_offered_the_formats() -> None:
    assert [name for name, _ in _formats("")] == list(FORMATS)
    assert [name for name, _ in _formats("n")] == ["nccl", "nccl-tests", "ns3", "netq"]


def test_help_has_an_example() -> None:
    assert "Example: fairspine import nccl" in CliRunner().invoke(app, ["import", "--help"]).output
