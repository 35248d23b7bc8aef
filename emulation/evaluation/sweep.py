"""Simulation of a grid of cells on this machine or a cluster, which can be resumed.

A finished cell is a file, named by a hash of its inputs (``cell.key_of``) and written atomically, so that a stopped
sweep continues where it was. The files are written by the process that started the sweep, also on a cluster: the
workers do not need access to its disk.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path

import orjson

from controller.whole_file import naming_the_mend, write_bytes
from emulation.evaluation.cell import Row, key_of, run_cell
from emulation.evaluation.results_file import write_results
from emulation.evaluation.scenario import Cell
from emulation.interrupts import ending_by_exception


class SweepBackend(StrEnum):
    """Where cells are simulated: in processes of this machine (joblib), or on a Dask cluster."""

    LOCAL = "local"
    DASK = "dask"


RunCell = Callable[[str, Cell], tuple[str, Row]]

Progress = Callable[[int, int], None]
"""Function that is called with (finished, total) after each cell."""


@dataclass(frozen=True)
class Finished:
    """The files of finished cells.

    Attributes:
        folder: where they are; it is made when the first one is.
    """

    folder: Path

    def read(self, key: str) -> Row | None:
        """Return the row of a finished cell; ``None`` if its file is missing or damaged."""
        try:
            row = orjson.loads((self.folder / f"{key}.json").read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return None
        return row if isinstance(row, dict) else None

    def write(self, key: str, row: Row) -> None:
        """Keep a row: the file is there with all that is in it, or not at all.

        Raises:
            InputError: the file cannot be written.
        """
        with naming_the_mend(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        write_bytes(self.folder / f"{key}.json", [orjson.dumps(row, option=orjson.OPT_INDENT_2)])


def sweep(
    cells: Sequence[Cell],
    finished: Finished,
    *,
    whole: Path | None = None,
    workers: int = 1,
    backend: SweepBackend = SweepBackend.LOCAL,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Simulate all cells that are not finished, and return the rows of all cells, in their order.

    Args:
        cells: the grid.
        finished: the store of finished rows.
        whole: folder for the full results, with a folder for each cell named by its key (``results_file``); a cell
            without this folder is not finished. Workers write them, so they need access to this disk.
        workers: number of processes on this machine.
        backend: where cells are simulated.
        scheduler: address of the Dask cluster's scheduler (``tcp://host:8786``).
        progress: called in this thread.

    An interrupt (Ctrl-C), and SIGTERM or SIGHUP to the main thread (``SystemExit``), end the workers and are raised
    again; all rows that were finished by then are kept.

    Raises:
        InputError: a row or full results cannot be written.
        ModuleNotFoundError: Dask is requested and not installed.
        OSError: the scheduler does not answer.
    """
    keys = [key_of(cell) for cell in cells]
    rows = {
        key: row
        for key in dict.fromkeys(keys)
        if (row := finished.read(key)) is not None and (whole is None or (whole / key).is_dir())
    }
    left = {key: cell for key, cell in zip(keys, cells, strict=True) if key not in rows}
    total = len(rows) + len(left)
    tell = progress or (lambda done, of: None)
    tell(len(rows), total)
    if left:
        work = partial(_work, whole)
        made = _on_dask(work, left, scheduler) if backend is SweepBackend.DASK else _here(work, left, workers)
        with ending_by_exception(), closing(made):
            for key, row in made:
                finished.write(key, row)
                rows[key] = row
                tell(len(rows), total)
    return [rows[key] for key in keys]


def _work(whole: Path | None, key: str, cell: Cell) -> tuple[str, Row]:
    row, results = run_cell(cell)
    if whole is not None:
        write_results(whole / key, row, results)
    return key, row


def _here(work: RunCell, cells: dict[str, Cell], workers: int) -> Generator[tuple[str, Row], None, None]:
    if workers == 1 or len(cells) == 1:
        yield from (work(key, cell) for key, cell in cells.items())
        return
    from joblib import Parallel, delayed

    pool = Parallel(n_jobs=workers, return_as="generator_unordered", pre_dispatch="2*n_jobs")
    yield from pool(delayed(work)(key, cell) for key, cell in cells.items())


def _on_dask(work: RunCell, cells: dict[str, Cell], scheduler: str | None) -> Generator[tuple[str, Row], None, None]:
    from distributed import Client, as_completed

    with Client(scheduler, set_as_default=False) as client:
        futures = [client.submit(work, key, cell, key=f"fairspine-{key}") for key, cell in cells.items()]
        try:
            for future in as_completed(futures, loop=client.loop):
                yield future.result()
        finally:
            client.cancel(futures)


def check_installed(*, workers: int, backend: SweepBackend, whole: bool) -> None:
    """Import the packages that this sweep and its report use.

    Raises:
        ModuleNotFoundError: a package is not installed; names the first one.
    """
    import_module("matplotlib.figure")
    if whole:
        import_module("pyarrow.parquet")
    if backend is SweepBackend.DASK:
        import_module("distributed")
    elif workers > 1:
        import_module("joblib")
