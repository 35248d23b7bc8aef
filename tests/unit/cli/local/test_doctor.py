"""``fairspine doctor``: its checks with inputs of all kinds, and the command on this machine."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.cli.local import machine_checks
from controller.cli.local.doctor import _step, _store
from controller.cli.local.machine_checks import CheckState
from controller.model.errors import InputError
from controller.store.location import parse
from controller.store.store import Store
from controller.store.upgrade import steps
from tests.unit.cli.fake_controller import Controller
from tests.unit.cli.running import Run

REQUIREMENTS = ["numpy>=1.26", 'falcon>=4; extra == "controller"', 'mininet==2.3; extra == "emulation"']


@pytest.fixture
def port() -> Iterator[int]:
    """A port on which this test listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        yield listener.getsockname()[1]


def found(out: str) -> dict[str, dict[str, Any]]:
    return {one["check"]: one for one in json.loads(out)["checks"]}


def configuration(folder: Path, **options: object) -> str:
    """The path of a configuration file whose store is in memory and whose ports are free, but for these options."""
    ports = []
    for _ in range(2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ports.append(free.getsockname()[1])
    given = {"store": "memory", "wsapi_port": ports[0], "ofp_tcp_listen_port": ports[1]} | options
    path = folder / "fairspine.conf"
    path.write_text("[DEFAULT]\n" + "".join(f"{key} = {value}\n" for key, value in given.items()))
    return str(path)


@pytest.mark.parametrize(("version", "state"), [("3.11.7", "ok"), ("3.10.9", "problem"), ("3.14.0", "problem")])
def test_another_python_is_a_problem(version: str, state: str) -> None:
    assert machine_checks.python(version, ">=3.11, <3.14").state == state


def test_packages_of_an_extra_are_judged_apart_and_by_version() -> None:
    there = {"numpy": "1.20", "falcon": "4.0"}
    base = machine_checks.packages(REQUIREMENTS, "", there.get, needed=True)
    assert (base.state, base.found) == (CheckState.PROBLEM, "numpy 1.20 is not >=1.26")
    extra = machine_checks.packages(REQUIREMENTS, "controller", there.get, needed=True)
    assert (extra.state, extra.found, extra.mend) == (CheckState.OK, "1 installed", "")
    lab = machine_checks.packages(REQUIREMENTS, "emulation", there.get, needed=False)
    assert (lab.state, lab.found) == (CheckState.WARNING, "mininet is missing")
    assert "fairspine[emulation]" in lab.mend


def test_what_only_the_lab_needs_is_a_warning_with_a_mend() -> None:
    lacking = [
        machine_checks.root(False),
        machine_checks.kernel("Linux", True, "Operation not permitted"),
        machine_checks.programs({"tc": "iproute2", "ip": "iproute2"}, lambda name: name != "tc"),
        machine_checks.open_vswitch(None, False),
        machine_checks.open_vswitch("", True),
    ]
    assert {one.state for one in lacking} == {CheckState.WARNING}
    assert all("only the lab" in one.mend for one in lacking)
    assert lacking[2].found == "missing: tc"
    assert lacking[2].mend.endswith("apt-get install iproute2")
    assert machine_checks.kernel("Darwin", False, "").state is CheckState.PROBLEM
    assert "3.1.0" in machine_checks.open_vswitch("ovs-vswitchd (Open vSwitch) 3.1.0\n", False).found


def test_a_busy_port_is_a_problem_unless_a_controller_runs() -> None:
    busy = InputError("HTTP port is in use by another program", field="wsapi_port", value="127.0.0.1:8080")
    refused = InputError("HTTP port cannot listen: Permission denied", field="wsapi_port", value="127.0.0.1:80")
    states = [
        machine_checks.port("HTTP", "127.0.0.1:8080", reason, runs).state
        for reason, runs in ((None, False), (busy, True), (busy, False), (refused, True))
    ]
    assert states == ["ok", "ok", "problem", "problem"]
    assert "wsapi_port" in machine_checks.port("HTTP", "", busy, False).mend


def test_tables_of_a_newer_program_are_a_problem() -> None:
    states = [machine_checks.schema("a.db", step, ["0002", "0001"]).state for step in (None, "0001", "0002", "0003")]
    assert states == ["ok", "ok", "ok", "problem"]


def test_a_store_is_read_without_a_change(tmp_path: Path) -> None:
    location = f"sqlite:///{tmp_path}/a.db"
    assert _step(parse(location)) is None
    assert list(tmp_path.iterdir()) == []
    store = Store.open(location)
    try:
        # Also while a controller has it.
        assert _step(parse(location)) == steps()[0]
    finally:
        store.close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert _store(location).state is CheckState.OK
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_store_that_is_none_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database at all, and long enough to look like one" * 20)
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE songs (name TEXT)")
    other.close()
    for name, reason in (("text.db", "not a database"), ("other.db", "another program"), ("text.db/a", "not a folder")):
        judged = _store(f"sqlite:///{tmp_path}/{name}")
        assert (judged.state, reason in judged.found) == (CheckState.PROBLEM, True), judged


def test_the_command_finds_this_machine_well_and_fits_80_columns(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    config = configuration(tmp_path)
    code, out, err = run("doctor", "--config-file", config)
    assert (code, err) == (0, "")
    assert all(len(line) <= 80 or " " not in line for line in out.splitlines())
    code, out, _ = run("doctor", "--config-file", config, "--format", "json")
    checks = found(out)
    assert code == 0
    assert {"python", "packages", "kernel", "open vswitch", "HTTP port", "store", "access", "controller"} <= set(checks)


def test_each_fault_is_a_problem_of_its_own(run: Run, tmp_path: Path, port: int) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("")
    tokens.chmod(0o666)
    (tmp_path / "fairspine").mkdir()
    (tmp_path / "fairspine" / "config.toml").write_text("[contexts")
    config = configuration(tmp_path, wsapi_port=port, tokens=tokens, fabric=tmp_path / "none.yaml")
    code, out, err = run("doctor", "--config-file", config, "--format", "json")
    problems = {name for name, one in found(out).items() if one["state"] == "problem"}
    assert problems == {"HTTP port", "access", "fabric", "config file"}
    assert (code, err) == (1, "fairspine: 4 problems found\n")
    assert "chmod go-w" in found(out)["access"]["found"]


@pytest.mark.parametrize(("key", "value"), [("seed", "seven"), ("headroom", "2"), ("policy", "none_such")])
def test_a_wrong_value_of_the_configuration_is_named(run: Run, tmp_path: Path, key: str, value: str) -> None:
    file = configuration(tmp_path, **{key: value})
    code, out, _ = run("doctor", "--config-file", file, "--format", "json")
    judged = found(out)["configuration"]
    assert (code, judged["state"]) == (1, "problem")
    assert judged["found"].startswith(f"{file}: {key}: ")
    assert value in judged["found"]


def test_authorities_of_a_cluster_that_cannot_be_used_are_a_problem(run: Run, tmp_path: Path) -> None:
    missing = tmp_path / "ca.pem"
    options = {"cluster_name": "a", "cluster_url": "https://a:8443", "cluster_ca": missing}
    code, out, _ = run("doctor", "--config-file", configuration(tmp_path, **options), "--format", "json")
    judged = found(out)["access"]
    assert (code, judged["state"]) == (1, "problem")
    assert judged["found"].startswith("cluster_ca: ")


def test_the_health_of_a_running_controller_is_told(
    controller: Controller,
    run: Run,
    tmp_path: Path,
) -> None:
    config = configuration(tmp_path, wsapi_port=controller.url.rpartition(":")[2])
    controller.lay_out((200, {"status": "ok", "reasons": []}))
    code, out, _ = run("doctor", "--config-file", config, "--url", controller.url, "--format", "json")
    assert (code, found(out)["HTTP port"]["state"]) == (0, "ok")
    controller.lay_out((200, {"status": "degraded", "reasons": ["spine3 is away"]}))
    code, out, _ = run("doctor", "--config-file", config, "--url", controller.url, "--format", "json")
    assert code == 1
    assert "spine3 is away" in found(out)["controller"]["found"]


def test_a_controller_that_was_asked_for_must_answer(run: Run, tmp_path: Path, port: int) -> None:
    url = f"http://127.0.0.1:{port}/a?b"
    code, out, _ = run("doctor", "--config-file", configuration(tmp_path), "--url", url, "--format", "json")
    assert (code, found(out)["controller"]["state"]) == (1, "problem")


def host_row(name: str, **values: object) -> dict[str, object]:
    """A row of ``GET /v1/hosts``."""
    usual = dict.fromkeys(("epoch", "dead_paths", "lost_probes", "slowest_us", "counters", "pacing", "ports"))
    return {"host": name, "takes_part": True, "heard_seconds": 1.0, "confirmed": True, **usual, **values}


def port_row(**values: object) -> dict[str, object]:
    """What a row says of source ports."""
    usual = {"state": "active", "planned": 2, "known": 2, "oldest_seconds": 1.0, "moved": 0, "unreachable": 0}
    return {**usual, "probes": 9, "unanswered": 1, **values}


@pytest.mark.parametrize(
    ("row", "state", "expected"),
    [
        (host_row("h1"), "ok", {"agent": "heard 1.0 s ago", "icmp": "unknown", "shim": "unknown"}),
        (host_row("h1", ports=port_row()), "ok", {"icmp": "8 of 9 answered", "ports": "active, 2 of 2"}),
        (host_row("h1", heard_seconds=None), "problem", {"agent": "not heard"}),
        (host_row("h1", heard_seconds=None, takes_part=False), "ok", {"agent": "not heard", "mend": ""}),
        (host_row("h1", heard_seconds=99.0), "warning", {"agent": "heard 99.0 s ago"}),
        (host_row("h1", ports=port_row(state="unknown", known=0, unanswered=9)), "problem", {"icmp": "silent"}),
        (host_row("h1", ports=port_row(state="unknown", known=0, probes=0, unanswered=0)), "warning", {}),
        (host_row("h1", ports=port_row(state="unreachable", unreachable=1)), "warning", {"hash": "unknown"}),
        (host_row("h1", ports=port_row(state="drifted", known=1)), "warning", {"ports": "drifted, 1 of 2"}),
        (host_row("h1", ports=port_row(hash="linear")), "ok", {"hash": "linear", "device": "unknown"}),
        (host_row("h1", ports=port_row(sampled=2, unanswered=9)), "ok", {"icmp": "samples show 2 of 2"}),
        (host_row("h1", ports=port_row(qps=0, devices=[])), "ok", {"shim": "no queue pair open", "device": "none"}),
        (
            host_row("h1", ports=port_row(qps=3, planned_qps=2, devices=["mlx5_0", "mlx5_1"])),
            "ok",
            {"shim": "2 of 3 queue pairs planned", "device": "mlx5_0, mlx5_1"},
        ),
    ],
)
def test_what_works_at_a_host_is_told_and_the_rest_is_unknown(
    controller: Controller, run: Run, row: dict[str, object], state: str, expected: dict[str, str]
) -> None:
    controller.lay_out((200, {"hosts": [row]}))
    code, out, err = run("doctor", "--hosts", "--url", controller.url, "--format", "json")
    (one,) = json.loads(out)["hosts"]
    assert (one["state"], code, bool(err)) == (state, int(state == "problem"), state == "problem")
    assert {name: one[name] for name in expected} == expected
    controller.lay_out((200, {"hosts": [row]}))
    assert "h1" in run("doctor", "--hosts", "--url", controller.url)[1]


def test_where_switches_carry_out_plans_there_are_no_hosts_to_check(controller: Controller, run: Run) -> None:
    controller.lay_out((200, {"hosts": []}))
    code, out, _ = run("doctor", "--hosts", "--url", controller.url)
    assert (code, out.strip()) == (0, "switches carry out plans, and no host needs an agent")
