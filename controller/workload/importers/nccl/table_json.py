"""The output of nccl-tests as JSON (option ``-J``, from 2.17 on), as a table.

Times are those out of place, as in the text, or where there are none those in place. With MPI the file lists the first
GPU of each process; the others follow by rank and device (``nthreads`` times ``ngpus`` of ``config``).
"""

from __future__ import annotations

import math
from pathlib import PurePath
from typing import Any

from controller.model.errors import InputError
from controller.model.texts.byte_sizes import MAX_BYTES
from controller.workload.importers.base import Source
from controller.workload.importers.documents import items, json_document, mapping
from controller.workload.importers.fields import MAX_RANKS
from controller.workload.importers.head import Head
from controller.workload.importers.nccl.table import OPS, Gpu, SizeRow, Table


def is_table(head: Head) -> bool:
    """Return whether a file is such an output."""
    return head.keys >= {"nccl_version", "config"} and bool(head.keys & {"devices", "results"})


def read_table(source: Source) -> Table:
    """Read a table.

    Raises:
        InputError: the file is no such output; names the field.
    """
    document = mapping(json_document(source), source, "")
    config = mapping(document.get("config"), source, "config")
    results = items(document.get("results"), source, "results")
    rows = [mapping(row, source, f"results[{i}]") for i, row in enumerate(results)]
    table = Table(source.name, _test(document, rows), _gpus(config, source))
    table.rows = [row for i, one in enumerate(rows) if (row := _row(one, source, f"results[{i}]")) is not None]
    return table


def _test(document: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """Return the name of the program, without ``_perf``; empty: unknown."""
    args = document.get("args")
    program = PurePath(str(args[0])).name.removesuffix("_perf") if isinstance(args, list) and args else ""
    if program in OPS:
        return program
    named = str(rows[0].get("experiment_name", "")).lower() if rows else ""
    return next((test for test in OPS if test.replace("_", "") == named), "")


def _gpus(config: dict[str, Any], source: Source) -> list[Gpu]:
    each = _whole(config, "nthreads", source, "config", 1) * _whole(config, "ngpus", source, "config", 1)
    gpus = []
    for i, row in enumerate(items(config.get("devices"), source, "config.devices")):
        where = f"config.devices[{i}]"
        device = mapping(row, source, where)
        numbers = [_whole(device, key, source, where) for key in ("rank", "group", "pid", "device")]
        host = device.get("hostname")
        if not isinstance(host, str) or not host:
            raise InputError("is not a name", source=source.name, field=f"{where}.hostname", value=host)
        rank, group, pid, first = numbers
        gpus.append((rank, group, pid, host, first))
    known = {gpu[0] for gpu in gpus}
    # A later version may list all GPUs.
    own = [0] if any(rank + 1 in known for rank in known) else range(each)
    if len(gpus) * len(own) > MAX_RANKS:
        raise InputError(f"lists more than {MAX_RANKS} GPUs", source=source.name, field="config.devices")
    return [Gpu(rank + i, group, pid, host, first + i) for rank, group, pid, host, first in gpus for i in own]


def _row(row: dict[str, Any], source: Source, where: str) -> SizeRow | None:
    """Return the row of a size; ``None``: there is no time."""
    out, within = row.get("out_of_place"), row.get("in_place")
    measured = out if isinstance(out, dict) else within
    if not isinstance(measured, dict):
        return None
    kind = "out_of_place" if measured is out else "in_place"
    time = "time" if "time" in measured else "cpu_time"
    micros, algbw, busbw = (_real(measured, key, source, f"{where}.{kind}") for key in (time, "alg_bw", "bus_bw"))
    root = str(row.get("root", "-1")).strip()
    if not root.removeprefix("-").isdecimal():
        raise InputError("is not a rank", source=source.name, field=f"{where}.root", value=row.get("root"))
    checked = isinstance(within, dict) and within.get("nwrong") is not None
    size, count = (_whole(row, key, source, where) for key in ("size", "count"))
    return SizeRow(size, count, str(row.get("redop", "none")), int(root), micros, algbw, busbw, checked)


def _whole(row: dict[str, Any], key: str, source: Source, where: str, least: int = 0) -> int:
    value = row.get(key)
    if type(value) is not int or not least <= value <= MAX_BYTES:
        raise InputError("is not a whole number", source=source.name, field=f"{where}.{key}", value=value)
    return value


def _real(row: dict[str, Any], key: str, source: Source, where: str) -> float:
    value: Any = row.get(key)
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise InputError("is not a number", source=source.name, field=f"{where}.{key}", value=value)
    return float(value)
