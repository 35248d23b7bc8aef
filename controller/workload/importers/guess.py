"""Detection of a file's format and contents, including files that are not workloads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from controller.workload.importers.base import Source
from controller.workload.importers.head import UTF16, Head, head_of
from controller.workload.importers.registry import FileFormat, formats


@dataclass(frozen=True)
class Guess:
    """The detected format and contents of a file.

    Attributes:
        format: the name for ``fairspine import``; empty: no format reads the file alone.
        holds: its contents, and how to use it where no format reads it; empty: unknown.
    """

    file: str
    format: str
    holds: str

    @property
    def is_known(self) -> bool:
        """Whether the contents are known."""
        return bool(self.holds)


def guess(sources: Iterable[Source]) -> Iterator[Guess]:
    """Yield one guess for each source, in their order.

    Raises:
        InputError: a file cannot be read.
    """
    for source in sources:
        yield guess_head(head_of(source))


def guess_head(head: Head) -> Guess:
    """Return the guess of the first format that recognises the beginning of a file."""
    if not head.data:
        return Guess(head.name, "", "nothing: the file is empty")
    for other in _NO_WORKLOADS:
        if holds := other(head):
            return Guess(head.name, "", holds)
    for name, row in formats().items():
        if holds := _said_by(row, head):
            return Guess(head.name, name, holds)
    return Guess(head.name, "", "")


def _said_by(row: FileFormat, head: Head) -> str:
    """Return a format's description of the file; empty if a plug-in fails (``fairspine import`` shows the error)."""
    try:
        looks_like = getattr(row.load(), "looks_like", None)
        return "" if looks_like is None else cast(Callable[[Head], str], looks_like)(head)
    except Exception:  # a plug-in is another project's code
        if row.entry is None:
            raise
        return ""


# -- files that are no workload and no fabric --------------------------------------------------------------------------


def _pickle(head: Head) -> str:
    if len(head.data) > 2 and head.data[0] == 0x80 and head.data[1] in (2, 3, 4, 5):
        return (
            "a Python pickle, which can run code and is therefore not read: PyTorch's Flight Recorder also writes JSON"
        )
    return ""


def _nccl_topology(head: Head) -> str:
    if head.is_xml and "<system" in head.text and "<cpu" in head.text:
        return "an NCCL topology (XML): GPUs and NICs of one server; use --topology"
    return ""


def _nccl_graph(head: Head) -> str:
    if head.is_xml and "<graphs" in head.text:
        return "NCCL's search result (NCCL_GRAPH_DUMP_FILE): channels within one server, no sizes and no job"
    return ""


def _own_job(head: Head) -> str:
    starts = {line.partition(":")[0].strip() for line in head.lines if not line.startswith((" ", "-"))} | head.keys
    if "name" in starts and starts & {"collectives", "flows", "matrix", "parallelism"}:
        return "a job of fairspine: no import is needed"
    return ""


def _own_fabric(head: Head) -> str:
    starts = [line.partition(":")[0].strip().strip('"{') for line in head.lines]
    if "clos" in starts or {"switches", "hosts", "links"} <= ({*starts} | head.keys):
        return "a fabric of fairspine: use --fabric"
    return ""


def _own_scenario(head: Head) -> str:
    starts = {line.partition(":")[0].strip() for line in head.lines if not line.startswith((" ", "-", "#"))} | head.keys
    if starts >= {"fabric", "cases", "policies"}:
        return "a scenario of fairspine: use 'fairspine simulate'"
    return ""


def _own_plan(head: Head) -> str:
    if head.keys >= {"policy", "min_speed", "flows", "paths"}:
        return "a plan of fairspine: use --plan of 'fairspine export goal' or 'chakra'"
    return ""


def _lingjun(head: Head) -> str:
    if head.lines and head.lines[0].strip() == "ip,DSW,PSW,ASW":
        return "Alibaba's Lingjun data set: the switches of each host, without cables or speeds, so no fabric"
    return ""


def _astra_system(head: Head) -> str:
    if "logical-dims" in head.keys:
        return "ASTRA-sim's logical topology: the number of NPUs in each dimension; no job and no fabric"
    if head.keys >= {"scheduling-policy"} or head.keys >= {"all-reduce-implementation"}:
        return "an ASTRA-sim system configuration: its algorithms; no job and no fabric"
    return ""


def _busbw(head: Head) -> str:
    if re.match(r"\s*(test|global_parameters)\s*:?\s*$", head.lines[0] if head.lines else "") and "busbw" in head.text:
        return "SimAI's table of bus bandwidths, no job and no fabric"
    return ""


def _capture(head: Head) -> str:
    if head.data[:4] in (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\x0a\x0d\x0d\x0a"):
        return "a packet capture, no job and no fabric"
    return ""


def _utf16(head: Head) -> str:
    return f"text that {UTF16}" if head.is_utf16 else ""


def _nsight(head: Head) -> str:
    if head.data.startswith(b"SQLite format 3\0"):
        return "an SQLite database, as Nsight Systems exports: torch.profiler's JSON is read"
    return ""


_NO_WORKLOADS: Sequence[Callable[[Head], str]] = (
    _pickle,
    _nccl_topology,
    _nccl_graph,
    _own_scenario,
    _own_plan,
    _own_job,
    _own_fabric,
    _lingjun,
    _astra_system,
    _busbw,
    _capture,
    _nsight,
    _utf16,
)
