"""``fairspine export``, and what ``fairspine import`` makes of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from controller.cli.main import main
from controller.model.files.fabric_file import fabric_document, load_fabric

EXAMPLES = Path(__file__).parents[4] / "examples"
FABRIC = EXAMPLES / "clos-4x4x4.yaml"
JOB = EXAMPLES / "gpt3-a.json"


def _run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code or 0, *capsys.readouterr()


def test_an_exported_fabric_imports_as_the_same_fabric(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shape, again = tmp_path / "clos.topo", tmp_path / "clos.yaml"
    assert _run(capsys, "export", "htsim-topo", "--fabric", FABRIC, "--latency", "7", "--out", shape) == (0, "", "")
    assert shape.read_text().count("Downlink_Latency_ns 7\n") == 2
    code, _, _ = _run(capsys, "import", "htsim", shape, "--fabric-out", again, "--out", tmp_path / "job.json")
    assert (code, load_fabric(again).version) == (0, load_fabric(FABRIC).version)


def test_an_exported_job_imports_with_the_same_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    matrix, job = tmp_path / "jobs.cm", tmp_path / "job.json"
    arguments = ("export", "htsim-cm", "--fabric", FABRIC, "--job", JOB, "--scale", "0.5")
    code, printed, _ = _run(capsys, *arguments)
    assert code == 0
    assert _run(capsys, *arguments, "--out", matrix) == (0, "", "")
    assert matrix.read_text() == printed
    assert _run(capsys, "import", "htsim", matrix, "--fabric", FABRIC, "--out", job)[0] == 0
    plans = [
        json.loads(_run(capsys, "plan", "--fabric", FABRIC, "--job", file, "--format", "json")[1])
        for file in (JOB, job)
    ]
    ends = [sorted((flow["id"], flow["src"], flow["dst"]) for flow in plan["flows"]) for plan in plans]
    assert ends[0] == ends[1]
    assert plans[0]["min_speed"] == pytest.approx(plans[1]["min_speed"])


PLANES = EXAMPLES / "two-planes-4x4x4.yaml"


def test_stripes_are_exported_between_ports_by_every_format_of_flows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With a failed plane between two leaves, whose stripes are in the other one."""
    fabric = load_fabric(PLANES).without_links([f"leaf5-spine{n}" for n in range(5, 9)])
    file, plan = tmp_path / "fabric.json", tmp_path / "plan.json"
    file.write_text(json.dumps(fabric_document(fabric)))
    both = ("--fabric", file, "--job", JOB)
    plan.write_text(_run(capsys, "plan", *both, "--format", "json")[1])
    names = {name: i for i, name in enumerate(fabric.host_names)}
    planned = Counter(
        (names[flow["src"]], names[flow["dst"]], flow["bytes"]) for flow in json.loads(plan.read_text())["flows"]
    )
    assert {src < 16 for src, _, _ in planned} == {True, False}
    matrix = _run(capsys, "export", "htsim-cm", *both)[1]
    assert matrix.startswith("Nodes 32\n")
    assert planned == _ends(r"^(\d+)->(\d+) id \d+ start 0 size (\d+)", matrix)
    assert planned == _ends(r"^(\d+) (\d+) 3 100 (\d+) 2$", _run(capsys, "export", "ns3-flows", *both)[1])
    goal = _run(capsys, "export", "goal", *both, "--plan", plan)[1]
    sends = Counter(
        (rank, int(dst), int(size))
        for rank, part in enumerate(goal.split("\nrank ")[1:])
        for size, dst in re.findall(r": send (\d+)b to (\d+) tag", part)
    )
    assert sends == planned
    assert _run(capsys, "export", "chakra", *both, "--plan", plan, "--out", tmp_path / "traces")[0] == 0
    assert len(list((tmp_path / "traces").glob("*.et"))) == 32


def _ends(line: str, text: str) -> Counter[tuple[int, int, int]]:
    return Counter((int(src), int(dst), int(size)) for src, dst, size in re.findall(line, text, re.MULTILINE))


@pytest.mark.parametrize("qps", ["1", "2"])
def test_the_paths_of_a_plan_of_several_qps_are_found_by_the_ids_of_flows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, qps: str
) -> None:
    job, plan = tmp_path / "job.json", tmp_path / "plan.json"
    job.write_text(json.dumps(json.loads(JOB.read_text()) | {"qps": int(qps)}))
    plan.write_text(_run(capsys, "plan", "--fabric", FABRIC, "--job", job, "--format", "json")[1])
    code, out, err = _run(capsys, "export", "goal", "--fabric", FABRIC, "--job", job, "--plan", plan)
    assert (code, err) == (0, "")
    assert out.count("// gpt3-a/dp0/") == 8 * int(qps)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["htsim-topo", "--fabric", PLANES], "htsim's topology files describe one network, whose hosts have one port"),
        (["htsim-cm", "--fabric", FABRIC, "--job", JOB, "--out", "/no/such/folder/a.cm"], "cannot be written"),
        (["htsim-cm", "--fabric", FABRIC, "--job", "/no/such/job"], "cannot be read"),
        (["htsim-topo", "--fabric", "/no/such/fabric"], "cannot be read"),
        (
            ["goal", "--fabric", FABRIC, "--job", JOB, "--plan", FABRIC],
            f"{FABRIC}: is not JSON: expected value at line 1",
        ),
    ],
)
def test_what_cannot_be_exported_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str | Path], reason: str
) -> None:
    code, out, err = _run(capsys, "export", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert reason in err


def _fabric(folder: Path, **parts: object) -> Path:
    file = folder / "fabric.json"
    file.write_text(json.dumps(fabric_document(load_fabric(FABRIC)) | parts))
    return file


LAYERS = fabric_document(load_fabric(FABRIC))
PARALLEL = {"links": [{key: row[key] for key in ("a", "b", "gbps")} for row in LAYERS["links"] for _ in range(2)]}
ODD = {"hosts": [row | {"gbps": 0.0000005} for row in LAYERS["hosts"]]}
NO_PORTS = {"hosts": [{key: row[key] for key in row if key != "port"} for row in LAYERS["hosts"]], **PARALLEL}
IPV6 = {"hosts": [row | {"ip": f"fd00::{i // 4}:{i + 1:x}"} for i, row in enumerate(LAYERS["hosts"])]}


@pytest.mark.parametrize(
    ("command", "parts", "field"),
    [
        (["port-probes", "--out", "OUT"], {}, "switches: 'spine1'"),
        (["port-probes", "--out", "OUT"], PARALLEL, "links: "),
        (["path-addresses", "--out", "OUT"], PARALLEL, "links: "),
        (["path-addresses", "--out", "OUT"], IPV6, "hosts[0].ip: "),
        (["port-classes", "--out", "OUT"], PARALLEL, "links: "),
        (["htsim-topo"], {"failed": ["leaf1-spine1"]}, "failed: 'leaf1->spine1'"),
        (["htsim-topo"], ODD, "fabric: "),
        (["ns3-topo", "--out", "OUT"], ODD, "gbps: "),
        (["containerlab"], {"hosts": [LAYERS["hosts"][0] | {"server": "leaf1"}]}, "hosts: 'leaf1'"),
        (["ptm", "--out", "OUT"], NO_PORTS, "host h1: "),
        (["sonic-neighbors", "--out", "OUT"], NO_PORTS, "host h1: "),
        (["srv6", "--out", "OUT"], NO_PORTS, "links: "),
        (["srv6-border", "--out", "OUT"], NO_PORTS, "links: "),
        (["qos", "--out", "OUT"], NO_PORTS, "links: "),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_errors_about_a_fabric_name_its_file(
    command: list[str], parts: dict[str, object], field: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = _fabric(tmp_path, **parts)
    given = [str(tmp_path / "out") if argument == "OUT" else argument for argument in command]
    code, out, err = _run(capsys, "export", *given, "--fabric", file)
    assert (code, out) == (2, "")
    assert err.startswith(f"fairspine: {file}: {field}")


def test_an_error_about_an_option_does_not_name_the_fabric(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = _run(capsys, "export", "srv6", "--fabric", FABRIC, "--block", "x", "--out", tmp_path / "out")
    assert (code, err.startswith("fairspine: --block: 'x': ")) == (2, True)


def test_a_job_that_is_no_chakra_trace_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = EXAMPLES / "matrix.json"
    code, _, err = _run(capsys, "export", "chakra", "--job", job, "--out", tmp_path / "out")
    assert (code, err) == (2, f"fairspine: {job}: matrix: a matrix cannot be written to a trace of ranks\n")


def test_a_flow_that_no_host_can_tell_apart_names_the_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job, plan = tmp_path / "job.json", tmp_path / "plan.json"
    job.write_text(json.dumps(json.loads(JOB.read_text()) | {"ports": "unknown"}))
    plan.write_text(_run(capsys, "plan", "--fabric", FABRIC, "--job", job, "--format", "json")[1])
    given = ("--fabric", FABRIC, "--job", job, "--plan", plan, "--out", tmp_path / "out")
    code, _, err = _run(capsys, "export", "srv6-hosts", *given)
    assert code == 2
    assert err.startswith(f"fairspine: {plan}: gpt3-a/dp0/0: its source port is unknown")


def test_hosts_probe_every_path_or_those_of_a_plan_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabric = EXAMPLES / "routers-4x4x4.yaml"
    given = ("export", "port-probes", "--fabric", fabric)
    assert _run(capsys, *given, "--out", tmp_path / "all")[0] == 0
    whole = json.loads((tmp_path / "all/h1.json").read_bytes())
    assert [len(pair["wanted"]) for pair in whole["pairs"]] == [4] * 12
    assert whole["budget"] == {"burst": 6, "a_second": 1.0}
    plan = tmp_path / "plan.json"
    code, planned, _ = _run(capsys, "plan", "--fabric", fabric, "--job", JOB, "--policy", "ecmp", "--format", "json")
    assert code == 0
    plan.write_text(planned)
    assert _run(capsys, *given, "--job", JOB, "--plan", plan, "--out", tmp_path / "some")[0] == 0
    documents = [json.loads(file.read_bytes()) for file in (tmp_path / "some").iterdir()]
    ports = sum(path["ports"] for each in documents for pair in each["pairs"] for path in pair["wanted"])
    assert ports == sum(len(path["links"]) > 2 for flow in json.loads(planned)["flows"] for path in flow["paths"]) > 0


def test_probes_that_cannot_be_written_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("export", "port-probes", "--out", tmp_path / "out", "--fabric")
    code, _, error = _run(capsys, *given, FABRIC)
    assert (code, "has no addresses" in error) == (2, True)
    code, _, error = _run(capsys, *given, EXAMPLES / "routers-4x4x4.yaml", "--job", JOB)
    assert (code, "--plan and --job require each other" in error) == (2, True)
    (tmp_path / "known").mkdir()
    (tmp_path / "known/h1.json").write_text('{"host": "h1"}')
    code, _, error = _run(capsys, *given, EXAMPLES / "routers-4x4x4.yaml", "--known", tmp_path / "known")
    assert (code, "h1.json: pairs: has no pairs" in error) == (2, True)
    assert not (tmp_path / "out").exists()
