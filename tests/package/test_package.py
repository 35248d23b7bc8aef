"""The package as people install it: into an environment of its own, without Ryu, a database driver or Mininet.

These tests need the package index, so they run apart from those that move into a network namespace of their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.documented import ROOT, commands_of

NOT_NEEDED = ("ryu", "eventlet", "sqlalchemy", "psycopg", "mininet", "scapy", "prometheus_client")
SOURCES = (
    "agent",
    "controller",
    "emulation",
    "fairspine",
    "topologies",
    "setup.cfg",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "docs/man",
)
FILES = ("--fabric", str(ROOT / "examples/clos-4x4x4.yaml"), "--job", str(ROOT / "examples/gpt3-a.json"))


def run(*command: str | Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command away from the checkout, so that nothing is imported from it."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    # Compiling the kernels anew takes a minute; what is tried here are imports and entry points.
    environment["NUMBA_DISABLE_JIT"] = "1"
    return subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )


def done(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is built: a build leaves files behind."""
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source)
    return source


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    done(run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", out, source, folder=out))
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def environment(source: Path, wheel: Path) -> Path:
    """A virtual environment made by the README's commands, with the plug-ins; its folder of commands.

    The wheel is built first, since it comes from the same folder.
    """
    folder, commands = source / ".venv", source / ".venv" / "bin"
    made, *install = [line for line in commands_of(ROOT / "README.md") if "venv .venv" in line or "pip" in line]
    done(run(sys.executable, *made.split()[1:], folder=source))
    options = {"PIP_CONSTRAINT": str(ROOT / "requirements/constraints.txt"), "PIP_NO_COMPILE": "1"}
    for line in install:
        installed = run(*line.split(), folder=source, **options)
        if "name resolution" in installed.stderr and installed.returncode and os.environ.get("CI") != "true":
            pytest.skip("the package index cannot be reached")
        done(installed)
    done(run(commands / "pip", "install", "-q", "--no-compile", "setuptools>=64", "wheel", folder=folder))
    for name in ("policy-plugin", "importer-plugin", "enforcement-plugin"):
        plugin = shutil.copytree(ROOT / "examples" / name, folder / name)
        done(run(commands / "pip", "install", "-q", "--no-deps", "--no-build-isolation", plugin, folder=folder))
    return commands


def test_the_wheel_holds_the_licence_the_page_and_type_information(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith("LICENSE") and ".dist-info/" in name for name in names)
    assert {
        "controller/web/static/index.html",
        "emulation/evaluation/templates/report.html.j2",
        "fairspine/py.typed",
        "controller/py.typed",
    } <= set(names)


def test_the_extra_verbs_is_a_wheel_with_the_library(wheel: Path, tmp_path: Path) -> None:
    version = wheel.name.split("-")[1]
    metadata = zipfile.ZipFile(wheel).read(f"fairspine-{version}.dist-info/METADATA").decode()
    required = [line.partition(": ")[2] for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    (extra,) = (line for line in required if line.startswith("fairspine-verbs"))
    assert f"=={version}" in extra
    assert extra.replace("'", '"').endswith('extra == "verbs"')
    shutil.copytree(ROOT / "notices", tmp_path / "notices")
    copy = shutil.copytree(ROOT / "verbs", tmp_path / "verbs", ignore=shutil.ignore_patterns("__pycache__"))
    pip = (sys.executable, "-m", "pip")
    done(run(*pip, "wheel", "-q", "--no-deps", "-w", tmp_path, copy, folder=tmp_path))
    (made,) = tmp_path.glob("*.whl")
    assert made.name.startswith(f"fairspine_verbs-{version}-py3-none-linux_")
    there = tmp_path / "installed"
    options = ("--no-index", "--no-compile", "--find-links", tmp_path, "--target", there)
    done(run(*pip, "install", "-q", *options, f"fairspine-verbs=={version}", folder=tmp_path))
    told = run(sys.executable, "-m", "fairspine_verbs", folder=tmp_path, PYTHONPATH=str(there))
    library = Path(done(told).strip()) / "libibverbs.so.1"
    # Functions of the real library are there, too.
    script = """
import ctypes
verbs = ctypes.CDLL("libibverbs.so.1")
print(verbs.ibv_get_device_list, verbs.ibv_modify_qp, open("/proc/self/maps").read())
"""
    for how in ({"LD_PRELOAD": str(library)}, {"LD_LIBRARY_PATH": str(library.parent)}):
        assert str(library) in done(run(sys.executable, "-c", script, folder=tmp_path, **how))


def test_the_wheel_holds_neither_tests_nor_campaigns(wheel: Path) -> None:
    packages = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in packages if not name.endswith((".dist-info", ".data"))} == {
        "agent",
        "controller",
        "emulation",
        "fairspine",
        "topologies",
    }


def test_planning_importing_and_the_api_need_no_ryu_no_database_driver_and_no_mininet(environment: Path) -> None:
    folder = environment.parent
    absent = f"import importlib.util as u; print([n for n in {NOT_NEEDED!r} if u.find_spec(n)])"
    assert done(run(environment / "python", "-c", absent, folder=folder)) == "[]\n"
    logs = sorted((ROOT / "examples/nccl").glob("rank*.log"))
    inventory = ROOT / "examples/nccl/nics.yaml"
    imported = run(environment / "fairspine", "import", "nccl", *logs, "--inventory", inventory, folder=folder)
    assert '"collectives"' in done(imported)
    planned = run(environment / "fairspine", "plan", *FILES, "--policy", "two_choices", folder=folder)
    assert "two_choices: 8 flows" in done(planned)


def test_a_policy_of_another_distribution_is_compared_and_simulated(environment: Path) -> None:
    script = """
import fairspine as fs
fabric = fs.clos(leaves=2, spines=2, hosts_per_leaf=2)
ring = {"name": "c", "op": "all_reduce", "ranks": [0, 1, 2, 3], "bytes": 1e6}
job = fs.job("a", hosts=["h1", "h3", "h2", "h4"], collectives=[ring])
print(*(result.policy for result in fs.compare(fabric, [job], ["ecmp", "two_choices"])))
print(fs.simulate(fabric, [job], policy="two_choices", epochs=1).stalled)
"""
    said = done(run(environment / "python", "-c", script, folder=environment.parent))
    assert said.split("\n") == ["ecmp two_choices", "False", ""]


def test_an_enforcement_of_another_distribution_compiles_rules(environment: Path) -> None:
    script = """
import fairspine as fs
from controller.southbound.enforcement.registry import compile_rules, encode_flows
fabric = fs.clos(leaves=2, spines=2, hosts_per_leaf=2)
traffic = fs.traffic(fabric, [fs.job("a", flows=[{"src": "h1", "dst": "h3", "bytes": 1e9}])])
assignment = fs.plan(fabric, traffic).plan.assignment
for name in ("exact_port", "per_flow"):
    rules = compile_rules(name, fabric, traffic, encode_flows(fabric, traffic, assignment, name))
    print(len(rules[fabric.leaves[0].dpid]))
"""
    said = done(run(environment / "python", "-c", script, folder=environment.parent)).split()
    assert said[0] == said[1]


def test_a_format_of_another_distribution_is_imported(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sender,receiver,bytes\n0,1,700\n")
    said = done(run(environment / "fairspine", "import", "csv-matrix", tmp_path / "a.csv", folder=environment.parent))
    assert '"bytes":700' in said.replace(" ", "")
    guessed = run(environment / "fairspine", "import", "--guess", tmp_path / "a.csv", folder=environment.parent)
    assert "csv-matrix" in done(guessed)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            ("ryu-manager", "controller.app"),
            "ryu-manager: eventlet is not installed: pip install 'fairspine[controller]'",
        ),
        (
            ("fairspine", "emulate", *FILES),
            "fairspine: mininet is not installed: pip install 'fairspine[controller,emulation]'",
        ),
    ],
)
def test_a_command_whose_extra_is_not_installed_names_it_in_one_line(
    environment: Path, command: tuple[str, ...], said: str
) -> None:
    result = run(environment / command[0], *command[1:], folder=environment.parent)
    assert result.returncode != 0
    assert result.stderr.startswith(said)
    assert result.stderr.count("\n") == 1
