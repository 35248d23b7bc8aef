"""Loaded by Schemathesis (SCHEMATHESIS_HOOKS): lets more of the valid requests get somewhere.

Made-up ETags match nothing and made-up hosts exist nowhere, so nearly every job would be refused as 412 or 422, and
little would ever be read, replaced or deleted.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

import schemathesis

JOB = {"hosts": ["h1", "h5"], "collectives": [{"name": "c", "op": "all_reduce", "ranks": [0, 1], "bytes": 1_000_000}]}


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Offer a preview one job if ``SCHEMATHESIS_JOBS_ONCE`` is set.

    What covers every field of every operation would try each field of a job twice: as a job to push, and as one of a
    preview.
    """
    if os.environ.get("SCHEMATHESIS_JOBS_ONCE"):
        form = raw_schema["components"]["schemas"]["PreviewForm"]
        form["properties"]["put"]["items"] = {"enum": [{"name": "a", **JOB}]}


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Leave the conditions out of three of four valid requests, and put a job of the fabric's hosts into them."""
    if case.meta is None or case.meta.generation.mode.value != "positive" or case.path != "/v1/jobs/{name}":
        return
    # By what the request is, not by chance: a run with the same seed stays the same.
    if zlib.crc32(repr((case.method, case.headers, case.body)).encode("utf-8", "replace")) % 4:
        for name in ("If-Match", "If-None-Match"):
            case.headers.pop(name, None)
        if case.method == "PUT":
            case.body = JOB
