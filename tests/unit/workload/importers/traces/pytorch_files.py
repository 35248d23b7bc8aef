"""Files of PyTorch's profiler and flight recorder."""

from __future__ import annotations

import json
from typing import Any

from controller.workload.importers.base import Imported, ImportRequest
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import text_source


def event(name: str, op: str, elements: int, dtype: str, **more: Any) -> dict[str, Any]:
    has = {"Collective name": op, "In msg nelems": elements, "Out msg nelems": elements, "dtype": dtype}
    return {"name": name, "args": has | {"Process Group Name": "0", "Process Group Ranks": "[0, 1]"} | more}


def of_gloo(op: str, *tensors: tuple[list[int], str]) -> dict[str, Any]:
    """Return an event of Gloo, as PyTorch 2.13 writes it with ``record_shapes=True``."""
    shapes, types = [shape for shape, _ in tensors], [name for _, name in tensors]
    has = {"Record function id": 0, "Concrete Inputs": [""], "Input type": types, "Input Dims": shapes}
    return {"ph": "X", "cat": "user_annotation", "name": f"gloo:{op}", "args": has}


def trace(*events: dict[str, Any], **info: Any) -> str:
    return json.dumps({"schemaVersion": 1, "distributedInfo": info, "traceEvents": list(events)})


def kineto(*texts: str, **request: Any) -> Imported:
    sources = [text_source(f"worker{i}.json", text) for i, text in enumerate(texts)]
    return importer("kineto")(sources, ImportRequest(**request))


def dump(*entries: dict[str, Any], **more: Any) -> str:
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    return json.dumps({"version": "2.4", "pg_config": groups, "entries": list(entries)} | more)


def entry(name: str, shape: list[int], dtype: str = "Float") -> dict[str, Any]:
    return {
        "profiling_name": name,
        "process_group": ["0", "default_pg"],
        "input_sizes": [shape],
        "input_dtypes": [dtype],
        "output_sizes": [shape],
        "output_dtypes": [dtype],
    }


def recorder(*texts: str, **request: Any) -> Imported:
    sources = [text_source(f"nccl_trace_rank_{i}", text) for i, text in enumerate(texts)]
    return importer("flight-recorder")(sources, ImportRequest(**request))
