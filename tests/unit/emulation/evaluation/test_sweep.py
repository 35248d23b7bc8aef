from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import emulation.evaluation.sweep
from emulation.evaluation.cell import key_of, run_cell
from emulation.evaluation.sweep import Finished, SweepBackend, sweep
from tests.unit.emulation.evaluation.small import document, scenario

ROOT = Path(__file__).parents[4]


def timeless(rows: list) -> list:
    """Rows without what depends on the machine."""
    gone = ("wall_seconds", "planning_mean", "planning_worst")
    return [{key: value for key, value in row.items() if key not in gone} for row in rows]


def test_rows_are_in_the_order_of_the_cells_independent_of_completion(tmp_path: Path) -> None:
    cells = scenario(failed_spines=[0, 1]).cells()
    alone = sweep(cells, Finished(tmp_path / "alone"))
    assert [(row["failure"], row["policy"]) for row in alone] == [(c.failure.name, c.policy.name) for c in cells]
    assert timeless(sweep(cells, Finished(tmp_path / "two"), workers=2)) == timeless(alone)


def test_a_finished_cell_is_not_run_again_and_a_broken_file_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = scenario().cells()
    told: list[tuple[int, int]] = []
    first = sweep(cells, Finished(tmp_path), progress=lambda done, of: told.append((done, of)))
    assert told == [(0, 2), (1, 2), (2, 2)]
    (tmp_path / f"{key_of(cells[1])}.json").write_text('{"ratio": 1')
    ran = []
    run = run_cell
    monkeypatch.setattr(emulation.evaluation.sweep, "run_cell", lambda cell: (ran.append(cell), run(cell))[1])
    assert timeless(sweep(cells, Finished(tmp_path))) == timeless(first)
    assert ran == [cells[1]]


def test_cells_that_are_the_same_are_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = scenario(policies=["fair"]).cells()
    ran = []
    run = run_cell
    monkeypatch.setattr(emulation.evaluation.sweep, "run_cell", lambda cell: (ran.append(cell), run(cell))[1])
    assert len(sweep(cells * 3, Finished(tmp_path))) == 3
    assert len(ran) == 1


def test_what_was_finished_before_an_interrupt_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = scenario(failed_spines=[0, 1]).cells()
    run = run_cell

    def interrupted(cell: object) -> object:
        if cell is cells[2]:
            raise KeyboardInterrupt
        return run(cell)  # type: ignore[arg-type]

    monkeypatch.setattr(emulation.evaluation.sweep, "run_cell", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep(cells, Finished(tmp_path))
    assert [Finished(tmp_path).read(key_of(cell)) is not None for cell in cells] == [True, True, False, False]


def test_whole_results_count_among_what_has_to_be_there(tmp_path: Path) -> None:
    cells = scenario(policies=["fair"]).cells()
    sweep(cells, Finished(tmp_path / "cells"))
    assert not (tmp_path / "whole").exists()
    sweep(cells, Finished(tmp_path / "cells"), whole=tmp_path / "whole")
    assert [path.name for path in (tmp_path / "whole").iterdir()] == [key_of(cells[0])]


@contextmanager
def swept(out: Path) -> Iterator[subprocess.Popen[str]]:
    """A sweep by two workers, some cells of which are finished and most are not."""
    (out / "long.json").write_text(json.dumps(document(seeds=list(range(2000)), policies=["ecmp"])))
    command = [sys.executable, "-m", "controller.cli.main", "simulate", "--scenario", str(out / "long.json")]
    process = subprocess.Popen(
        [*command, "--out", str(out), "--workers", "2"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        # On a machine that is busy with other work this takes minutes: without a limit of its own.
        while not list(out.glob("cells/*.json")):
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.005)
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_control_c_ends_workers_and_command_and_the_sweep_goes_on_later(tmp_path: Path) -> None:
    with swept(tmp_path) as process:
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate()
    assert process.returncode == 130, told
    assert told.splitlines()[-1] == "fairspine: stopped; a new start continues from here"
    assert 0 < len(list(tmp_path.glob("cells/*.json"))) < 2000


def test_a_sweep_that_is_stopped_leaves_no_worker_behind(tmp_path: Path) -> None:
    with swept(tmp_path) as process:
        process.terminate()
        # Workers have its standard output and error, too: this returns when all have ended.
        _, told = process.communicate()
        assert process.returncode == 128 + signal.SIGTERM, told
        with suppress(ProcessLookupError):
            while True:
                os.killpg(process.pid, 0)
                time.sleep(0.05)
    assert 0 < len(list(tmp_path.glob("cells/*.json"))) < 2000


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A Dask scheduler and two worker processes on this machine; its address."""
    port_file = folder / "scheduler.json"
    common = ["--scheduler-file", str(port_file), "--no-dashboard"]
    parts = [["scheduler", "--host", "127.0.0.1", "--port", "0", *common]]
    parts += [["worker", "--nthreads", "1", "--no-nanny", "--local-directory", str(folder), *common]] * 2
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "log").open("w") as log:
        processes = []
        try:
            for part in parts:
                processes.append(
                    subprocess.Popen([sys.executable, "-m", "dask", *part], env=environment, stdout=log, stderr=log)
                )
                deadline = time.monotonic() + 180
                while not port_file.exists() and time.monotonic() < deadline:
                    assert processes[0].poll() is None, (folder / "log").read_text()
                    time.sleep(0.05)
            import orjson

            yield orjson.loads(port_file.read_bytes())["address"]
        finally:
            for process in reversed(processes):
                process.terminate()
            for process in processes:
                try:
                    process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def test_a_cluster_gives_the_same_rows_and_they_are_kept_here(tmp_path: Path) -> None:
    pytest.importorskip("distributed", exc_type=ImportError)
    cells = scenario(failed_spines=[0, 1]).cells()
    here = sweep(cells, Finished(tmp_path / "here"))
    with cluster(tmp_path) as address:
        there = sweep(cells, Finished(tmp_path / "there"), backend=SweepBackend.DASK, scheduler=address)
    assert timeless(there) == timeless(here)
    assert len(list((tmp_path / "there").glob("*.json"))) == len(cells)


def test_a_scheduler_that_is_not_there_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dask = pytest.importorskip("dask", exc_type=ImportError)
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}), pytest.raises(OSError, match="127"):
        sweep(scenario().cells(), Finished(tmp_path), backend=SweepBackend.DASK, scheduler="tcp://127.0.0.1:9")
