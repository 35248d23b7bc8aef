"""Tests on real switches run in a network namespace that this process makes for them: no port, interface or switch of
the machine is touched, and all of it vanishes with the process, however it ends."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from emulation import isolate, needs, runfile
from emulation.lab import Lab
from tests.rig.bench import Bench
from tests.rig.both_kinds import Setup
from tests.rig.controller import Controller
from tests.rig.page.dashboard import page, served
from tests.rig.store.postgres import postgres_server, postgres_session, postgres_url

__all__ = [
    "page",
    "postgres_server",
    "postgres_session",
    "postgres_url",
    "served",
]  # fixtures that are written elsewhere


SLOWEST = (
    "emulate",
    "emulate_learned",
    "training",
    "schemathesis",
    "faults_cluster",
    "faults",
    "emulate_replans",
    "planes",
    "jobs",
    "dashboard",
    "foreign_drop",
    "bonds",
    "hosts",
    "service",
    "dashboard_planes",
    "attack",
    "emulate_hedera",
    "emulate_routers",
    "dashboard_frames",
    "lab_command",
    "readme",
    "kill",
    "store_kill",
    "trace",
    "link_discovery",
)
"""Files that take long begin first: a worker that had one of them left at the end would keep the others waiting."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slowest files first, and move into the namespace before the first test runs.

    What was started before would be left on the other side.
    """
    place = {f"test_{name}": at for at, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))
    if any(item.get_closest_marker("switches") for item in items) and not needs.missing():
        isolate.enter()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("switches"):
        lacking = needs.missing()
        if lacking and os.environ.get("CI") == "true":
            pytest.fail(lacking)
        if lacking:
            pytest.skip(lacking)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a private run folder, since other labs of this machine have an h1 too.

    It is not in ``tmp_path``, since paths of sockets must be short.
    """
    folder = Path(tempfile.mkdtemp(prefix="fs"))
    monkeypatch.setenv(runfile.RUN_FOLDER_VARIABLE, str(folder))
    yield folder
    runfile.sweep_dead()
    shutil.rmtree(folder)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Yield the labs and controllers of one test. Any traceback or OpenFlow error in any log fails the test."""
    made = Bench(tmp_path / "out")
    try:
        yield made
    finally:
        made.close()
    found = made.problems()
    assert not found, "in the logs:\n" + "\n".join(found)


@pytest.fixture
def lab(bench: Bench) -> Callable[..., Lab]:
    """Return ``lab(fabric, **options)``, which starts a lab; it is removed after the test."""
    return bench.lab


@pytest.fixture
def controller(bench: Bench) -> Callable[..., Controller]:
    """Return ``controller("--fabric", file, "controller/app.py")``, which starts a ryu-manager until the test ends."""
    return bench.controller


@pytest.fixture
def setup(bench: Bench, tmp_path: Path) -> Iterator[Setup]:
    """Yield what makes controllers and fake or real switches."""
    made = Setup(bench, tmp_path)
    yield made
    made.close()
