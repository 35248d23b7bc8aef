"""``fairspine job``, as people and programs call it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from controller.cli.main import main
from controller.model.files.fabric_file import load_fabric
from controller.workload.job_file import load_job
from controller.workload.placement.placement import crossing_of

EXAMPLES = Path(__file__).parents[4] / "examples"
RAILS = str(EXAMPLES / "clos-8x16x32-rails.yaml")
GPT3 = str(EXAMPLES / "gpt3-175b-tp8-pp8-dp4.yaml")

Run = Callable[..., tuple[object, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        return end.value.code or 0, *capsys.readouterr()

    return call


def test_describe_prints_groups_collectives_and_phases(run: Run) -> None:
    code, out, err = run("job", "describe", GPT3)
    assert (code, err) == (0, "")
    assert all(word in out for word in ("gpt3-175b", "tp 8", "dp*.scatter", "reduce_scatter", "pipeline"))


def test_describe_derives_the_computing_time_from_a_gpus_throughput(run: Run) -> None:
    code, out, err = run("job", "describe", GPT3, "--gpu-tflops", "140", "--format", "json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said["timing"] == {"compute_seconds": {"0": said["computing"]["seconds"]}}
    assert said["computing"]["bubble"] == 7 / 64
    table = run("job", "describe", GPT3, "--gpu-tflops", "140")[1]
    assert f"compute_seconds before phase 0: {said['computing']['seconds']:.6g}" in table
    code, _, err = run("job", "describe", "examples/gpt3-a.json", "--gpu-tflops", "140")
    assert code == 2
    assert "gpu_tflops" in err


def test_describe_shows_what_crosses_leaves_once_the_job_has_a_place(run: Run, tmp_path: Path) -> None:
    placed = tmp_path / "placed.json"
    code, out, _ = run("job", "place", GPT3, "--fabric", RAILS, "--out", str(placed), "--format", "json")
    said = json.loads(out)
    assert (code, said["before"], said["ranks"]) == (0, None, 256)
    code, out, _ = run("job", "describe", str(placed), "--fabric", RAILS, "--format", "json")
    told = json.loads(out)
    assert code == 0
    assert told["total"]["cross_leaf_bytes"] == said["after"]["cross_leaf"] > 0
    assert told["total"]["network_bytes"] == said["after"]["network"]
    # Data parallelism, which talks most, stays under its leaf; the pipeline crosses.
    share = {kind["name"]: kind["load"]["cross_leaf_share"] for kind in told["kinds"]}
    assert (share["dp*.scatter"], share["pp*.f*"], share["tp*.gather"]) == (0.0, 1.0, None)
    table = run("job", "describe", str(placed), "--fabric", RAILS)[1]
    assert "under 8 leaves" in table


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_place_keeps_the_document_and_gives_it_hosts(run: Run, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"placed.{suffix}"
    assert run("job", "place", GPT3, "--fabric", RAILS, "--placement", "scattered", "--out", str(out))[0] == 0
    written = yaml.safe_load(out.read_text())
    hosts = written.pop("hosts")
    assert written == yaml.safe_load(Path(GPT3).read_text())
    assert load_job(out).hosts == tuple(hosts)


def test_place_says_on_standard_error_what_changed_where_the_job_goes_to_standard_output(
    run: Run, tmp_path: Path
) -> None:
    scattered = tmp_path / "scattered.json"
    run("job", "place", GPT3, "--fabric", RAILS, "--placement", "scattered", "--out", str(scattered))
    code, out, err = run("job", "place", str(scattered), "--fabric", RAILS, "--format", "json")
    said = json.loads(err)
    assert code == 0
    assert said["after"]["cross_leaf"] < said["before"]["cross_leaf"] == said["before"]["network"]
    fabric = load_fabric(RAILS)
    again = tmp_path / "again.json"
    again.write_text(out)
    assert crossing_of(fabric, load_job(again)).cross_leaf == said["after"]["cross_leaf"]
    assert "between leaves" in run("job", "place", str(scattered), "--fabric", RAILS)[2]


def test_hosts_of_the_jobs_beside_it_are_not_used(run: Run, tmp_path: Path) -> None:
    gpt3, llama = EXAMPLES / "gpt3-a.json", EXAMPLES / "llama-b.json"
    fabric = str(EXAMPLES / "clos-4x4x4.yaml")
    out = tmp_path / "placed.json"
    arguments = ["job", "place", str(gpt3), "--fabric", fabric, "--out", str(out)]
    assert run(*arguments, "--beside", str(llama))[0] == 0
    assert set(load_job(out).hosts).isdisjoint(load_job(llama).hosts)
    code, _, err = run(*arguments, "--beside", str(llama), "--beside", str(gpt3))
    assert (code, err) == (2, f"fairspine: {gpt3}: hosts: the job has 8 ranks; 0 hosts are free\n")


def test_flows_and_matrices_are_placed_by_name(run: Run, tmp_path: Path) -> None:
    fabric = str(EXAMPLES / "clos-4x4x4.yaml")
    for name in ("flows.json", "matrix.json"):
        out = tmp_path / name
        assert run("job", "place", str(EXAMPLES / name), "--fabric", fabric, "--out", str(out))[0] == 0
        assert crossing_of(load_fabric(fabric), load_job(out)).cross_leaf == 0


def test_a_job_that_is_nowhere_yet_cannot_be_described_on_a_fabric(run: Run) -> None:
    code, _, err = run("job", "describe", GPT3, "--fabric", RAILS)
    assert code == 2
    assert err == f"fairspine: {GPT3}: hosts: the job has none yet: place it by 'fairspine job place'\n"


def test_a_file_that_cannot_be_written_is_reported(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "nowhere" / "x.json"
    assert run("job", "place", GPT3, "--fabric", RAILS, "--out", str(out)) == (
        2,
        "",
        f"fairspine: {out}: cannot be written: No such file or directory; make its folder first\n",
    )


@pytest.mark.parametrize("command", ["describe", "place"])
def test_help_carries_an_example_that_works(
    run: Run, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    help_text = " ".join(run("job", command, "--help")[1].split())
    example = help_text.split("Example: fairspine ")[1].split()
    assert example[:2] == ["job", command]
    monkeypatch.chdir(EXAMPLES.parent)
    assert run(*(str(tmp_path / word) if word == "placed.json" else word for word in example))[0] == 0


def test_place_orders_the_ranks_of_an_allocation_for_slurm(run: Run, tmp_path: Path) -> None:
    tasks, nodes, placed = tmp_path / "tasks", tmp_path / "nodes", tmp_path / "placed.json"
    # Every second server first, as a scheduler may name them.
    servers = f"node[{','.join(str(number) for first in (1, 2) for number in range(first, 33, 2))}]"
    allocation = ("--fabric", RAILS, "--servers", servers, "--out", str(placed))
    code, out, err = run("job", "place", GPT3, *allocation, "--host-file", str(tasks), "--format", "json")
    assert not err
    said = json.loads(out)
    assert (code, said["ranks"]) == (0, len(tasks.read_text().split()))
    assert said["after"]["cross_leaf"] <= said["before"]["cross_leaf"]
    assert run("job", "place", GPT3, *allocation, "--host-file", str(nodes), "--tasks-per-node", "1")[0] == 0
    order = nodes.read_text().split()
    per_node = said["ranks"] // len(order)
    assert tasks.read_text().split() == [name for name in order for _ in range(per_node)]
    fabric = load_fabric(Path(RAILS))
    placed_on = [fabric.hosts[fabric.host_index[host]].server for host in load_job(placed).hosts]
    assert placed_on == tasks.read_text().split()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--servers", "nowhere"], "--servers: 'nowhere': the fabric has no server of this name"),
        (["--servers", "node1,node1"], "--servers: 'node1': is named twice"),
        (["--servers", "node1", "--placement", "random"], "--servers: cannot be used with"),
        (["--tasks-per-node", "1"], "--tasks-per-node: 1: needs --host-file"),
    ],
)
def test_place_on_wrong_servers_is_one_line(run: Run, options: list[str], reason: str) -> None:
    code, out, err = run("job", "place", GPT3, "--fabric", RAILS, *options)
    assert (code, out) == (2, "")
    assert err.startswith(f"fairspine: {reason}")
    assert err.count("\n") == 1


def test_describe_draws_the_time_line_of_a_placed_job_that_computes(run: Run, tmp_path: Path) -> None:
    row = {"op": "all_reduce", "ranks": [0, 1], "bytes": 10**9}
    job = {
        "name": "a",
        "hosts": ["h1", "h33"],
        "compute_seconds": 0.2,
        "collectives": [row | {"name": "ep"}, row | {"name": "dp", "overlap": "compute"}],
    }
    path = tmp_path / "a.json"
    path.write_text(json.dumps(job))
    code, out, err = run("job", "describe", str(path), "--fabric", RAILS)
    assert (code, err) == (0, "")
    bars = {line.split()[1]: line for line in out.splitlines() if line.rstrip().endswith("=")}
    assert set(bars) == {"computing", "ep", "dp"}
    assert bars["computing"].count("=") > bars["ep"].count("=") > 0
    assert bars["dp"].index("=") == bars["computing"].index("=") < bars["ep"].index("=")
    answer = json.loads(run("job", "describe", str(path), "--fabric", RAILS, "--format", "json")[1])
    assert [span["name"] for span in answer["time_line"]] == [None, "dp", "ep"]
    assert answer["not_overlapped"] == []


def test_describe_and_plan_tell_of_an_overlap_with_no_computing(run: Run, tmp_path: Path) -> None:
    row = {"op": "all_reduce", "ranks": [0, 1], "bytes": 10**9, "name": "dp", "overlap": "compute"}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"name": "a", "hosts": ["h1", "h33"], "collectives": [row]}))
    words = "dp: 'overlap' has no effect, because the job states no computing in this phase"
    assert words in run("job", "describe", str(path))[1]
    code, _, err = run("plan", "--fabric", RAILS, "--job", str(path), "--policy", "greedy")
    assert code == 0
    assert f"warning: job a: {words}" in err
