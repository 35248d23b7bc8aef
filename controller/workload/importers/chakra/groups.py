"""Process groups as PyTorch writes them: one JSON text with a row a group, in both kinds of traces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from controller.model.errors import InputError
from controller.workload.importers.base import Source
from controller.workload.importers.chakra.trace import MAX_GROUPS, RankTrace
from controller.workload.importers.fields import MAX_RANKS

NODE = "process_group:init"
"""Part of the name of the node that holds the text."""

CUT_OFF = "truncated list of process groups: further groups are known only from operations"

_OTHER_NAMES = ("backend_id", "uid", "pg_id")
"""Other names of a group in the oldest traces: the address of its backend, which differs on each rank."""


def is_group(value: object) -> bool:
    """Return whether this is a list of ranks."""
    return isinstance(value, list) and bool(value) and all(type(rank) is int for rank in value)


def check_group(source: Source, name: str, ranks: tuple[int, ...], where: str) -> None:
    """Check the ranks of a group.

    Raises:
        InputError: a value is not a rank, or the ranks are not distinct.
    """
    if any(not 0 <= rank < MAX_RANKS for rank in ranks) or len(set(ranks)) < len(ranks):
        raise InputError(
            f"the ranks of group {name!r:.40} are invalid or not distinct", source=source.name, field=where
        )


def read_groups(trace: RankTrace, text: str, where: str) -> None:
    """Add the groups to the trace. PyTorch cuts a text at 8192 characters, so it may end within a group.

    Raises:
        InputError: the text does not list groups, or contradicts itself.
    """
    for row in _rows(trace, text, where):
        ranks, size, name = row.get("ranks"), row.get("group_size"), row.get("pg_name")
        others = [str(row[key]) for key in _OTHER_NAMES if isinstance(row.get(key), (str, int))]
        if not isinstance(name, (str, int)):
            if not others:
                continue
            name = others[0]
        for other in others:
            trace.aliases.setdefault(other, str(name))
        if type(size) is int:
            trace.sized(str(name), size, where)
        if isinstance(ranks, list) and (is_group(ranks) or not ranks):
            check_group(trace.source, str(name), tuple(ranks), where)
            trace.member(str(name), tuple(ranks), where)
        if len(trace.aliases) > MAX_GROUPS:
            raise trace.error("too many groups", where)


def _rows(trace: RankTrace, text: str, where: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder()
    at = text.find("{")
    if not text.lstrip().startswith("["):
        raise trace.error("does not name its groups in JSON", where)
    while at >= 0:
        try:
            row, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            trace.leave_out(CUT_OFF)
            return
        if isinstance(row, dict):
            yield row
        at = text.find("{", end)
