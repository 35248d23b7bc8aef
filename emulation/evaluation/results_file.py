"""One simulation whole: as JSON and a plot for a look, and as Parquet for everything that is long."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from controller.model.units import GBIT
from controller.whole_file import naming_the_mend
from emulation.evaluation.cell import PERCENTILES, Row
from emulation.evaluation.plots import plot_results
from emulation.fluid.movers import Allocation
from emulation.fluid.records import Results

SUMMARY, PLOT = "results.json", "results.png"


def write_results(folder: Path, row: Row, results: Results) -> None:
    """Write the results as JSON, Parquet and a plot.

    ``results.json`` has the row, epochs, plans and percentiles; ``results.png`` is the plot; ``epochs``, ``runs``,
    ``flows`` and ``links`` are Parquet files. ``runs``: every run of every step. ``flows``: every completed transfer
    (with ``collective`` allocation: every group, whose transfers end together), in seconds of the simulation.
    ``links``: Gbit that each link carried in each bin. The folder is written atomically.

    Raises:
        InputError: the folder cannot be written.
        ModuleNotFoundError: pyarrow or matplotlib is not installed.
    """
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    with naming_the_mend(folder), _removed_at_the_end(draft):
        draft.mkdir(parents=True)
        (draft / SUMMARY).write_bytes(orjson.dumps(_summary(row, results), option=orjson.OPT_INDENT_2))
        (draft / PLOT).write_bytes(plot_results(results))
        for name, columns in _tables(row, results).items():
            _write_parquet(draft / f"{name}.parquet", columns)
        shutil.rmtree(folder, ignore_errors=True)
        draft.replace(folder)


@contextmanager
def _removed_at_the_end(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _summary(row: Row, results: Results) -> dict[str, Any]:
    steps = results.runs.ended - results.runs.began
    return {
        **row,
        "came": results.came,
        "went": results.went,
        "epoch_times": [asdict(epoch) | {"seconds": epoch.seconds} for epoch in results.epochs],
        "step_seconds": {str(p): float(np.percentile(steps, p)) for p in PERCENTILES} if len(steps) else {},
        "plannings": [asdict(planning) for planning in results.plannings],
    }


def _tables(row: Row, results: Results) -> dict[str, Mapping[str, Any]]:
    """Name -> column -> values."""
    traffic, schedule, runs, flows = results.traffic, results.schedule, results.runs, results.flows
    jobs = np.array([collective.job for collective in traffic.collectives], dtype=np.str_)
    names = np.array([collective.name for collective in traffic.collectives], dtype=np.str_)
    of_flow = schedule.collective[flows.group]
    tables: dict[str, Mapping[str, Any]] = {
        "epochs": {
            "job": [epoch.job for epoch in results.epochs],
            "epoch": [epoch.number for epoch in results.epochs],
            "began": [epoch.began for epoch in results.epochs],
            "ended": [epoch.ended for epoch in results.epochs],
        },
        "runs": {
            "job": jobs[runs.collective],
            "collective": names[runs.collective],
            "group": runs.group,
            "epoch": runs.epoch,
            "run": runs.run,
            "began": runs.began,
            "ended": runs.ended,
        },
        "flows": {
            "job": jobs[of_flow],
            "collective": names[of_flow],
            "group": flows.group,
            "epoch": flows.epoch,
            "run": flows.run,
            "began": flows.began,
            "ended": flows.ended,
        },
    }
    if row["allocation"] != Allocation.COLLECTIVE:
        flow = schedule.flow[flows.owner]
        host = np.array(results.fabric.host_names, dtype=np.str_)
        tables["flows"] = {
            **tables["flows"],
            "src": host[traffic.src[flow]],
            "dst": host[traffic.dst[flow]],
            "number": traffic.number[flow],
        }
    if len(results.bin_end):
        bins, links = results.gbit.shape
        seconds = np.diff(results.bin_end, prepend=0.0)
        capacity = results.fabric.link_gbps * seconds[:, None]
        tables["links"] = {
            "until": np.repeat(results.bin_end, links),
            "link": np.tile(np.array(results.fabric.link_ids, dtype=np.str_), bins),
            "bytes": (results.gbit / GBIT).ravel(),
            "utilisation": (results.gbit / capacity).ravel(),
        }
    return tables


def _write_parquet(path: Path, columns: Mapping[str, Any]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({name: pa.array(values) for name, values in columns.items()}), path)
