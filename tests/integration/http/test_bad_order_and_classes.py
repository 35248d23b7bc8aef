"""Jobs whose order, class or tenant cannot be: a running controller refuses each in one line, as the command does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.cli.connection.client import Client
from controller.cli.main import main
from controller.cli.shared.command_error import CommandError
from tests.rig.real_controller import controller

FABRIC = "clos: {spines: 2, leaves: 2, hosts_per_leaf: 4}\ntenants: {a: 2, b: 1}\n"
HOSTS = ["h1", "h5"]


def ring(name: str = "x", **more: Any) -> dict[str, Any]:
    return {"name": name, "op": "all_reduce", "ranks": [0, 1], "bytes": 10**9, **more}


def listed(**more: Any) -> dict[str, Any]:
    """Two flows of two collectives that no packet tells apart."""
    flows = [{"src": "h1", "dst": "h5", "bytes": 10**6, "collective": name} for name in ("p", "q")]
    return {"hosts": HOSTS, "flows": flows, "ports": "unknown", **more}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"collectives": [ring("x", after=["y"]), ring("y", after=["x"])]}, "these collectives wait for each other: x, y"),
    ({"collectives": [ring(after=["x"])]}, "these collectives wait for each other: x"),
    ({"collectives": [ring(after=["z"])]}, "the job has no collective of this name"),
    ({"collectives": [ring("x", phase=0, after=["y"]), ring("y", phase=1)]}, "this collective is in the later phase 1"),
    ({"collectives": [ring(overlap="send")]}, "'compute'"),
    ({"class": 4, "collectives": [ring()]}, "less than 4"),
    ({"collectives": [{**ring(), "class": -1}]}, "greater than or equal to 0"),
    ({"class": "latency", "collectives": [ring()]}, "valid integer"),
    ({"class": True, "collectives": [ring()]}, "valid integer"),
    ({"collectives": [ring()], "classes": {"zz": 1}}, "the job has no collective of this name"),
    (listed(classes={"p": 1, "q": 2}), "look like those of"),
    ({"tenant": "c", "collectives": [ring()]}, "the fabric has no such tenant; its tenants are a, b"),
    ({"weight": 0, "collectives": [ring()]}, "greater than or equal to 0.000001"),
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("bad")
    fabric = folder / "fabric.yaml"
    fabric.write_text(FABRIC)
    with controller(folder, "--fabric", str(fabric)) as (server, _):
        yield Client(f"http://127.0.0.1:{server.port}")


def named(job: dict[str, Any]) -> dict[str, Any]:
    return {"name": "j", "hosts": HOSTS, **job}


def push(client: Client, name: str, job: dict[str, Any]) -> Any:
    return client.request("PUT", "jobs", name, body=json.dumps({**named(job), "name": name}).encode())


@pytest.mark.parametrize(("job", "reason"), BAD)
def test_a_controller_and_the_command_refuse_it_in_one_line_and_nothing_changes(
    client: Client, job: dict[str, Any], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError) as refused:
        push(client, "j", job)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value).strip()
    assert client.request("GET", "jobs").document["jobs"] == []
    fabric, path = tmp_path / "fabric.yaml", tmp_path / "j.json"
    fabric.write_text(FABRIC)
    path.write_text(json.dumps(named(job)))
    with pytest.raises(SystemExit) as end:
        main(["plan", "--fabric", str(fabric), "--job", str(path)])
    out, err = capsys.readouterr()
    assert (end.value.code, out, err.count("\n"), reason in err) == (2, "", 1, True)


def test_a_class_that_would_starve_another_is_refused_and_overlap_without_computing_is_planned(client: Client) -> None:
    try:
        assert push(client, "low", {"collectives": [ring(overlap="compute"), ring("y")]}).status == 201
        with pytest.raises(CommandError) as refused:
            push(client, "high", {"hosts": ["h1", "h6"], "class": 1, "collectives": [ring()]})
        assert "starve" in str(refused.value)
        assert "\n" not in str(refused.value).strip()
        # Two jobs whose packets look alike cannot have two classes either.
        assert push(client, "one", {**listed(), "hosts": ["h2", "h6"], "flows": flow("h2", "h6")}).status == 201
        with pytest.raises(CommandError, match="look like those of"):
            push(client, "other", {**listed(), "hosts": ["h2", "h6"], "flows": flow("h2", "h6"), "class": 1})
        assert [row["name"] for row in client.request("GET", "jobs").document["jobs"]] == ["low", "one"]
    finally:
        for row in client.request("GET", "jobs").document["jobs"]:
            client.request("DELETE", "jobs", row["name"])


def flow(src: str, dst: str) -> list[dict[str, Any]]:
    return [{"src": src, "dst": dst, "bytes": 10**6}]


@pytest.mark.parametrize("weight", ["0", "-1", ".nan"])
def test_a_tenant_needs_a_weight(weight: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabric = tmp_path / "fabric.yaml"
    fabric.write_text(FABRIC.replace("b: 1", f"b: {weight}"))
    with pytest.raises(SystemExit) as end:
        main(["plan", "--fabric", str(fabric), "--job", str(fabric)])
    _, err = capsys.readouterr()
    assert (end.value.code, err.count("\n"), "tenants.b" in err) == (2, 1, True)
