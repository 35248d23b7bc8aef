"""A real framework (JAX, Gloo over TCP) trains on switches and routers under the plan of a running controller."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from emulation.isolated_command import Output
from emulation.training import tcp_library, training_command, training_request
from emulation.training.training_command import serve
from emulation.training.training_launch import jobs_on
from emulation.training.training_outcome import MORE
from emulation.training.training_request import TrainingRequest, load
from emulation.training.training_run import network_of
from tests.documented import ROOT, commands_of
from tests.rig.forks import forks
from tests.rig.programs import fairspine
from tests.rig.routers.answering_routers import addressed

pytestmark = pytest.mark.switches

RANKS, WIDTH = 4, 300
BYTES = 2 * WIDTH * WIDTH * 4
HOSTS = [f"h{rank + 1}" for rank in range(RANKS)]
FABRIC = clos(2, RANKS, 1)
TRAINING_SECONDS = 600.0
FEW = 1000
"""Bytes of messages by which ranks begin and end."""


def request(folder: Path, hosts: Sequence[str] = HOSTS, fabric: Fabric = FABRIC, **fields: Any) -> TrainingRequest:
    """Return a request for one job, with its ranks on these hosts: by default one on each of four leaves."""
    (folder / "fabric.yaml").write_text(yaml.safe_dump(fabric_document(fabric)))
    call = {"name": "dp", "op": "all_reduce", "algorithm": "ring", "ranks": [3, 2, 1, 0], "bytes": BYTES}
    job = folder / "job.json"
    job.write_text(json.dumps({"name": "mlp", "protocol": "tcp", "hosts": [*hosts], "collectives": [call]}))
    script = f"{ROOT / 'examples/training/mlp.py'} --width {WIDTH}"
    given = {"steps": 4, "launches": 1, "out": folder / "out"}
    return TrainingRequest(folder / "fabric.yaml", (job,), (script,), **{**given, **fields})


def test_gradients_take_the_planned_uplinks_and_losses_are_those_of_hashed_connections(tmp_path: Path) -> None:
    wanted = request(tmp_path, learn="host", steps=3)
    # Jobs are known by their iterations, between which they compute.
    wanted = replace(wanted, scripts=(f"{wanted.scripts[0]} --compute 1.0 --trace {tmp_path / 'profile'}",))
    assert serve(load(wanted), "none", forks().popen) == 0
    values = json.loads((tmp_path / "out" / "training.json").read_text())
    assert (tmp_path / "out" / "training.png").read_bytes().startswith(b"\x89PNG")
    assert values["failures"] == []
    hashed, planned, learned = values["launches"]
    assert (hashed["policy"], planned["policy"], learned["policy"]) == ("ecmp", "fair", "learned")
    (before,), (after,), (later,) = hashed["jobs"], planned["jobs"], learned["jobs"]
    assert later["losses"][: wanted.steps] == after["losses"] == before["losses"]
    (job,) = learned["learned"]
    # Bytes are right in the end (learning/test_tcp_jobs.py waits for it), on a busy machine not after these few steps.
    assert (job["recall"], job["precision"]) == (1.0, 1.0)
    assert len(set(after["losses"])) == wanted.steps
    assert after["losses"][-1] < after["losses"][0]
    # A ring sends all of the gradients but one rank's part twice, from each rank to the one before it.
    size = 2 * (RANKS - 1) / RANKS * BYTES * wanted.steps
    uplinks = {link["id"]: link for link in planned["links"] if link["id"].startswith("leaf")}
    assert sorted(link["planned_bytes"] for link in uplinks.values()) == [0] * 4 + [pytest.approx(size)] * 4
    for link in uplinks.values():
        assert (link["bytes"] >= size) == (link["planned_bytes"] > 0), link
    # What JAX recorded of the first two launches is what the links carried, but for headers and acknowledgements.
    for profile in sorted(tmp_path.glob("profile/plugins/profile/*/*.xplane.pb"))[:2]:
        recorded = imported("jax-trace", [profile], wanted.steps - 1)
        (reduced,) = recorded["collectives"]
        assert (reduced["op"], reduced["ranks"]) == ("all_reduce", [3, 2, 1, 0])
        said = 2 * (RANKS - 1) / RANKS * reduced["bytes"] * wanted.steps
        assert said == pytest.approx(size, rel=1e-4)
        carried = [link["bytes"] for link in uplinks.values() if link["planned_bytes"]]
        assert said < min(carried)
        assert max(carried) < said * MORE


def imported(kind: str, files: Sequence[Path], iterations: int) -> dict[str, Any]:
    """Return the job that ``fairspine import`` makes of what a framework has recorded."""
    assert files
    done = fairspine("import", kind, *map(str, files), "--iterations", str(iterations), "--protocol", "tcp")
    assert done.returncode == 0, done.stderr
    job: dict[str, Any] = json.loads(done.stdout)
    return job


def test_a_cable_that_fails_in_mid_training_costs_no_step_and_the_other_carries_what_is_simulated(
    tmp_path: Path,
) -> None:
    steps, fails_after = 8, 3
    # Each of two leaves has two ranks, both of which send to the other leaf, and a cable for each.
    hosts = ("h1", "h3", "h2", "h4")
    scenario = load(request(tmp_path, hosts, clos(2, 2, 2), steps=steps))
    (draw,) = (draw for draw in scenario.emulated.draws if draw.policy == "fair")
    size = 2 * (RANKS - 1) / RANKS * BYTES
    with network_of(scenario, forks().popen) as network, network.applied(draw) as applied:
        uplinks = {flow["src"]: flow["paths"][0]["links"][1] for flow in applied.plan["flows"]}
        assert len(set(uplinks.values())) == 4
        leaf, spine = uplinks["h1"].split("->")
        with jobs_on(network, scenario, "cable") as running:
            running.wait_for(fails_after, TRAINING_SECONDS)
            begun = running.done("mlp")
            before = network.sent()
            done = running.done("mlp")
            network.lab.set_cable(f"{leaf}-{spine}", up=False)
            failed = running.done("mlp")
            running.wait_for_end(TRAINING_SECONDS)
            after = network.sent()
            losses = running.losses("mlp")
    assert failed < steps
    assert len(losses) == steps
    assert losses == sorted(losses, reverse=True)  # type: ignore[type-var]
    # The step in progress may have been sent already, or not.
    least = steps - done - 1
    carried = {link: after[link] - before[link] for link in after}
    assert carried[uplinks["h2"]] >= slower_without_a_cable(tmp_path) * size * least
    # Of the steps between the two looks, and of those in progress then.
    assert carried[uplinks["h1"]] <= size * (failed - begun + 2)


def slower_without_a_cable(folder: Path) -> float:
    """Return how much longer an iteration of the job of a folder takes with a dead cable, by ``fairspine simulate``."""
    case = {"jobs": [{"job": "job.json", "compute_seconds": 0}]}
    values = {"name": "cable", "fabric": "fabric.yaml", "cases": [case], "failed_links": [1], "policies": ["fair"]}
    (folder / "scenario.yaml").write_text(yaml.safe_dump(values | {"seeds": [1], "epochs": 3}))
    out = ("--out", str(folder / "simulated"), "--format", "json")
    done = fairspine("simulate", "--scenario", str(folder / "scenario.yaml"), *out)
    assert done.returncode == 0, done.stderr
    ratios = {row["failure"]: row["ratio"] for row in json.loads(done.stdout)["standings"]}
    assert ratios == {"none": pytest.approx(1.0), "1 link": pytest.approx(2.0)}
    ratio: float = ratios["1 link"]
    return ratio


def test_connections_take_planned_uplinks_of_routers_that_only_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["make", "-s", "-C", str(ROOT / "tcp"), f"OUT={tmp_path}"], check=True)
    for module in (tcp_library, training_request):
        monkeypatch.setattr(module, "LIBRARY", tmp_path / tcp_library.LIBRARY.name)
    routers = addressed(clos(2, 2, 2))
    ports = {"enforcement": "probed_port", "policies": ("fair",), "steps": 3}
    assert serve(load(request(tmp_path, ("h1", "h3", "h2", "h4"), routers, **ports)), "none", forks().popen) == 0
    values = json.loads((tmp_path / "out" / "training.json").read_text())
    (planned,) = values["launches"]
    uplinks = [link for link in planned["links"] if link["id"].startswith("leaf")]
    # All four flows leave their leaf, each by a cable of its own.
    assert [link["planned_bytes"] for link in uplinks] == [pytest.approx(2 * (RANKS - 1) / RANKS * BYTES * 3)] * 4
    assert values["failures"] == planned["off_plan"] == []
    logs = [path.read_text() for path in (tmp_path / "out/training/logs").glob("fair-1-mlp-*.log")]
    assert len(logs) == RANKS
    assert any("connections get ports of the plan" in log for log in logs)


GUIDE = [command for command in commands_of(ROOT / "docs/tutorial/training.md") if " emulate-training " in command]


@pytest.mark.parametrize("command", GUIDE)
def test_the_commands_of_the_tutorial_train_in_their_short_form(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, *options = shlex.split(command)
    by_mpi = options.index("--script") + 1 if "mlp_mpi.py" in command else 0
    if by_mpi:
        options[by_mpi] += f" --counts {tmp_path / 'run'}"
    options += ["--steps", "3", "--policies", "fair", "--out", str(tmp_path)]
    if command == GUIDE[0]:
        argv = [program, *options]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TRAINING_SECONDS)
    else:
        # Once is enough for what starts the command, its namespaces and the controller anew.
        monkeypatch.setattr(training_command, "run_isolated", _run_here)
        monkeypatch.chdir(ROOT)
        done = fairspine(*options)
    assert done.returncode == 0, done.stderr
    assert "losses equal: 1 of 1 rows" in done.stdout
    if by_mpi:
        # The links carried what the job file says, else the command would have failed, and OpenMPI counted the same.
        job = json.loads((ROOT / options[options.index("--job") + 1]).read_text())
        recorded = imported("openmpi-monitoring", sorted(tmp_path.glob("run.*.prof")), 3)
        assert sent_by(recorded, job["hosts"]) == pytest.approx(sent_by(job, job["hosts"]), rel=1e-3)


def sent_by(job: dict[str, Any], hosts: Sequence[str]) -> Counter[tuple[str, str]]:
    """Return the bytes that hosts send each other, but for ``FEW``; those of an importer have the numbers of ranks."""
    name = {f"rank{rank}": host for rank, host in enumerate(hosts)}
    sent: Counter[tuple[str, str]] = Counter()
    for flow in job["flows"]:
        sent[name.get(flow["src"], flow["src"]), name.get(flow["dst"], flow["dst"])] += flow["bytes"]
    return Counter({edge: size for edge, size in sent.items() if size > FEW})


def _run_here(request: TrainingRequest, output: Output) -> int:
    return serve(load(request), output, forks().popen)
