"""``fairspine trace``: of plans from files, of traces in files, and of what a controller answers."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.cli.main import main
from controller.cli.shared.command_error import NO_PATH
from controller.model.files.fabric_file import fabric_document, load_fabric
from controller.model.packets.port_numbers import ROCE_PORT
from controller.rest import schemas
from tests.unit.cli.fake_controller import Controller, serving

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "examples" / "trace"
FABRIC = ("--fabric", str(EXAMPLE / "fabric.yaml"))
PLAN = (*FABRIC, "--job", str(EXAMPLE / "job.yaml"))

Run = Callable[..., tuple[object, str, str]]


@pytest.fixture
def controller() -> Iterator[Controller]:
    one = Controller()
    with serving(one):
        yield one


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, controller: Controller
) -> Run:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("FAIRSPINE_URL", controller.url)

    def call(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as end:
            main(("trace", *arguments))
        return end.value.code or 0, *capsys.readouterr()

    return call


def example() -> dict[str, Any]:
    return json.loads((EXAMPLE / "ecmp.json").read_text())  # type: ignore[no-any-return]


def answer(**changes: Any) -> dict[str, Any]:
    """A controller's trace with the example's flows."""
    about = {"at": "2026-01-02T03:12:00+00:00", "epoch": 7, "mode": "planned", "enforcement": "per_flow"}
    document = {**about, "seconds": 0.1, "window": 5.0, "silent": [], **example(), "compare": None, **changes}
    schemas.TraceDocument.model_validate(document)
    return document


def astray(document: dict[str, Any], n: int = 1) -> dict[str, Any]:
    """The first flows are somewhere else."""
    for flow in document["flows"][:n]:
        flow |= {"differs": True, "how": "rules", "why": "leaf1's rule for it leads elsewhere", "real": None}
    return document


def test_a_plan_is_traced_from_files_and_evens_out_what_ecmp_does_not(run: Run) -> None:
    found = {}
    for policy in ("ecmp", "fair"):
        code, out, err = run(*PLAN, "--policy", policy, "--compare", "ecmp", "--format", "json")
        trace = schemas.TraceBody.model_validate_json(out)
        assert (code, err, len(trace.flows)) == (0, "", 32)
        found[policy] = trace
    assert all(layer.flows is not None and layer.flows.fim == pytest.approx(0) for layer in found["fair"].layers)
    assert all(layer.bytes is not None and layer.bytes.fim > 0.2 for layer in found["ecmp"].layers)
    assert found["fair"].hot == []
    assert len(found["ecmp"].hot) > 4
    compared = found["fair"].compare
    assert compared is not None
    assert compared.plan_min_speed == pytest.approx(1)
    assert compared.min_speed.max < 0.6
    assert compared.layers[0].flows.fim.min >= 0.25
    # What the example's page says.
    page = (EXAMPLE / "README.md").read_text()
    spreads = (compared.layers[0].flows.fim, compared.layers[0].flows.max_over_mean, compared.min_speed)
    for spread, digits in zip(spreads, (3, 2, 3), strict=True):
        assert f"{spread.mean:.{digits}f} ({spread.min:.{digits}f} to {spread.max:.{digits}f})" in page


def test_the_saved_example_is_what_the_command_makes_and_the_csv_has_the_same_paths(run: Run, tmp_path: Path) -> None:
    saved = tmp_path / "ecmp.json"
    assert run(*PLAN, "--policy", "ecmp", "--save", str(saved))[0] == 0
    assert json.loads(saved.read_text()) == example()
    code, out, _ = run("--from", str(EXAMPLE / "ecmp.json"), "--format", "json")
    assert (code, json.loads(out)) == (0, example())
    code, out, _ = run("--from", str(EXAMPLE / "hops.csv"), *FABRIC, "--format", "json")
    told = json.loads(out)
    assert code == 0
    for part in ("layers", "links", "hot"):
        assert told[part] == example()[part]
    assert [flow["real"] for flow in told["flows"]] == [flow["real"][1:] for flow in example()["flows"]]
    # Its own trace is read again like any other.
    again = tmp_path / "hops.json"
    again.write_text(out)
    assert json.loads(run("--from", str(again), "--format", "json")[1]) == told
    # Without the fabric nobody knows of links that carry nothing.
    unused = json.loads(run("--from", str(EXAMPLE / "hops.csv"), "--format", "json")[1])
    assert [layer["links"] for layer in unused["layers"]] < [layer["links"] for layer in told["layers"]]


def test_the_table_of_another_tools_trace_has_both_links_between_switches(run: Run) -> None:
    code, out, _ = run("--from", str(EXAMPLE / "hops.csv"), *FABRIC)
    assert code == 0
    ours = run("--from", str(EXAMPLE / "ecmp.json"))[1]
    for flow in example()["flows"][:20]:
        leaf_to_spine, spine_to_leaf = flow["real"][1:-1]
        between = f"{leaf_to_spine}->{spine_to_leaf.partition('->')[2]}"
        assert between in ours
        assert between in out


def test_tables_name_layers_hot_links_and_who_collides(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = run(*PLAN, "--policy", "ecmp", "--compare", "ecmp")
    assert (code, err) == (0, "")
    assert re.search(r"uplinks +16 +flows +0\.562 +2\.500", out)
    assert re.search(r"leaf2->spine3 +400\.0 +- +5 +37\.5 GB +train/dp0 9->10, ", out)
    assert "worst of 20 seeds" in out
    monkeypatch.setenv("LINES", "24")
    assert "the first 5 of 32" in run(*PLAN, "--policy", "ecmp", "--compare", "ecmp")[1]


def test_a_live_trace_is_asked_for_shown_and_saved_and_a_flow_astray_is_exit_code_1(
    run: Run, controller: Controller, tmp_path: Path
) -> None:
    controller.lay_out((200, answer()), (200, astray(answer(mode="ecmp", silent=["spine2"]), 2)))
    code, out, err = run("--job", "train", "--compare", "ecmp", "--save", str(tmp_path / "kept.json"))
    assert (code, err, controller.asked[0][1]) == (0, "", "/v1/trace?compare=ecmp&job=train")
    assert "plan 7, mode planned, per_flow, 2026-01-02 03:12:00 UTC: 32 flows" in out
    assert json.loads((tmp_path / "kept.json").read_text()) == answer()
    code, out, err = run("--differs", "--format", "json")
    told = json.loads(out)
    assert (code, len(told["flows"]), told["silent"]) == (1, 2, ["spine2"])
    assert err == (
        "fairspine: 2 of 32 flows are not on their planned paths, the first is train/dp0/0: "
        "leaf1's rule for it leads elsewhere\n"
    )


def test_differs_lists_those_that_are_astray_and_no_others(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(astray(answer(), 3)))
    code, out, _ = run("--from", str(path), "--differs")
    assert (code, out.count("leads elsewhere")) == (1, 3)
    assert "train/dp0/7" not in out.rpartition("flows\n")[2]
    path.write_text(json.dumps(answer()))
    code, out, err = run("--from", str(path), "--differs")
    assert (code, err, "all flows with known paths are on their planned paths" in out) == (0, "", True)


def test_a_saved_trace_is_narrowed_to_a_job_and_counted_anew(run: Run, tmp_path: Path) -> None:
    document = answer()
    for flow in document["flows"][:8]:
        flow["job"] = "other"
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document))
    told = json.loads(run("--from", str(path), "--job", "other", "--format", "json")[1])
    assert len(told["flows"]) == 8
    assert sum(link["flows"] for link in told["links"]) == 16
    assert [layer["links"] for layer in told["layers"]] == [16, 16]


def test_captures_show_the_paths_of_flows(run: Run, controller: Controller, tmp_path: Path) -> None:
    fabric = load_fabric(EXAMPLE / "fabric.yaml")
    flow = example()["flows"][0]
    ends = [fabric.hosts[fabric.host_index[flow[end]]].ip for end in ("src", "dst")]
    addresses = b"".join(bytes(map(int, ip.split("."))) for ip in ends)
    packet = (
        bytes(12)
        + b"\x08\x00"
        + b"\x45"
        + bytes(8)
        + b"\x11\0\0"
        + addresses
        + struct.pack("!HHHH", flow["udp_src"], ROCE_PORT, 8, 0)
    )
    folder = tmp_path / "captures"
    folder.mkdir()
    other = next(name for name in ("leaf1-spine1", "leaf1-spine2") if name not in flow["real"][1].replace("->", "-"))
    for name in fabric.cable_names[:4]:
        frames = [packet] * 3 if name == other else []
        records = b"".join(struct.pack("<IIII", 0, 0, len(each), len(each)) + each for each in frames)
        head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 64 * 1024, 1)
        (folder / f"{name}.pcap").write_bytes(head + records)
    code, out, err = run("--from", str(EXAMPLE / "ecmp.json"), *FABRIC, "--capture", str(folder), "--format", "json")
    told = json.loads(out)["flows"][0]
    assert (told["real"][1].replace("->", "-"), told["how"], told["sure"]) == (other, "capture", 1.0)
    assert (code, "captured on other links" in err) == (1, True)
    # Live, the controller knows the fabric.
    described = fabric_document(fabric)
    links = [
        {"id": name, "drained": False, **row} for name, row in zip(fabric.cable_names, described["links"], strict=True)
    ]
    controller.lay_out((200, answer()), (200, {**described, "links": links}))
    assert json.loads(run("--capture", f"{other}={folder / other}.pcap", "--format", "json")[1])["flows"][0] == told


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--compare", "fair"), "--compare: 'fair': can be ecmp"),
        (("--policy", "fair", "--from", "x.json"), "--policy: 'fair': cannot be used with --from"),
        (("--policy", "fair"), "--policy: 'fair': requires --fabric and --job"),
        (("--policy", "best", *PLAN), "--policy: 'best': no policy has this name"),
        (FABRIC, "requires --from or --policy"),
        (("--from", "nothing.json"), "nothing.json: cannot be read"),
        (("--from", "nothing.csv"), "nothing.csv: cannot be read"),
        (("--from", str(EXAMPLE / "fabric.yaml")), "flows"),
        (("--from", str(EXAMPLE / "ecmp.json"), "--compare", "ecmp"), "--compare: cannot be used with --from"),
        (
            ("--from", str(EXAMPLE / "ecmp.json"), "--job", "nobody"),
            "--job: 'nobody': the trace has no flow of this job",
        ),
        (("--from", str(EXAMPLE / "ecmp.json"), "--capture", "a=b"), "--capture: 'a=b': requires --fabric"),
        (
            ("--from", str(EXAMPLE / "ecmp.json"), *FABRIC, "--capture", "a=b"),
            "--capture: 'a': the fabric has no cable",
        ),
        (("--from", str(EXAMPLE / "ecmp.json"), *FABRIC, "--capture", "b"), "--capture: 'b': must be LINK=FILE"),
        (("--from", str(EXAMPLE / "ecmp.json"), *FABRIC, "--capture", str(EXAMPLE)), "contains no .pcap files"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_exit_code_2(run: Run, arguments: tuple[str, ...], what: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert what in err


def test_damage_in_a_saved_trace_is_named_by_file_and_field(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for field, damage in (
        ("flows[2].share", lambda d: d["flows"][2].update(share=2)),
        ("flows[0].how", lambda d: d["flows"][0].update(how="magic")),
        ("layers[1].flows.fim", lambda d: d["layers"][1]["flows"].update(fim=-1)),
        ("hot", lambda d: d.pop("hot")),
        ("epoch", lambda d: d.pop("epoch")),
    ):
        document = answer()
        damage(document)
        path.write_text(json.dumps(document))
        code, out, err = run("--from", str(path))
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"fairspine: {path}: {field}: ")
    path.write_text("[]")
    assert run("--from", str(path))[2] == f"fairspine: {path}: is not a trace\n"


def test_an_answer_of_another_kind_is_no_traceback(run: Run, controller: Controller) -> None:
    for document in ({}, [], {**answer(), "flows": [{}]}, {**answer(), "links": 7}):
        controller.lay_out((200, document))
        code, _, err = run()
        assert (code, err.count("\n"), "is this a fairspine controller" in err) == (1, 1, True)


def test_paths_that_are_not_known_are_dashes_and_have_an_exit_code_of_their_own(
    run: Run, controller: Controller
) -> None:
    document = answer(silent=["leaf1"])
    for flow in document["flows"]:
        flow |= {"how": "none", "sure": 0.0, "real": None, "why": "leaf1 is not connected"}
    for layer in document["layers"]:
        layer |= {"flows": None, "bytes": None}
    schemas.TraceDocument.model_validate(document)
    controller.lay_out((200, document))
    code, out, err = run()
    assert code == 3
    assert "32 of unknown path" in out
    rows = [line.split() for line in out.splitlines() if line.strip().startswith(("uplinks", "downlinks"))]
    assert rows
    assert all(row[-3:] == ["-", "-", "-"] for row in rows)
    assert "the paths of 32 of 32 flows are not known" in err
    assert "leaf1 is not connected" in err
    # What is known to be wrong comes first.
    document["flows"][0] |= {"differs": True, "how": "rules"}
    controller.lay_out((200, document))
    assert run()[0] == 1


def test_flows_without_a_path_are_listed_and_have_an_exit_code_of_their_own(run: Run, controller: Controller) -> None:
    document = answer()
    for flow in document["flows"]:
        flow["arrives"] = True
    first = document["flows"][0]
    first |= {"planned": None, "real": None, "arrives": False, "how": "rules", "why": "no live path joins its leaves"}
    controller.lay_out(*[(200, document)] * 2)
    code, out, err = run("--differs")
    assert code == NO_PATH
    assert err == f"fairspine: 1 of 32 flows have no path, the first is {first['id']}: no live path joins its leaves\n"
    assert "1 without a path" in out
    assert "all flows" not in out
    assert [row["id"] for row in json.loads(run("--differs", "--format", "json")[1])["flows"]] == [first["id"]]
    # A flow that is elsewhere is the worse fault.
    document["flows"][1] |= {"differs": True, "why": "leaf1 has no rule for it"}
    controller.lay_out((200, document))
    code, _, err = run("--differs")
    assert code == 1
    assert err.endswith(", and 1 have no path\n")
