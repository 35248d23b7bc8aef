"""Execution traces to a job: MLCommons Chakra (``.et``) and PyTorch (JSON), a file a rank.

* *Ranks*: from the files' names (``trace.3.et``) or, in JSON, from their contents; else in the order of the files.
  There are as many as the files, the groups and the peers need.
* *Groups*: as named in traces; for Chakra also a file of groups in ASTRA-sim's form (``{"0": [0, 1], ..}``). A trace
  without groups means all ranks.
* *Bytes*: all runs of an operation in a group are one collective, with their sizes added up over the trace and divided
  by the iterations that it covers. All ranks of a group record the same runs, so the largest total counts, and a note
  says where they differ. The parts of an all-to-all are taken from its splits if it has them.
* Sends are flows, one for each pair of ranks; so are gathers and scatters.
* *Phases*: the operations of one group run one after the other. Where only one group has any, each of its collectives
  has its own phase; where several have, all are in phase 0, because it is unknown which overlap.
* *Overlap*: a collective of Chakra overlaps with computing if most of its bytes are of runs beside which its ranks have
  something to compute that neither waits for them nor they for it (``order``). It is in phase 0, which computes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from controller.model.errors import InputError
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.chakra.merge import merge
from controller.workload.importers.chakra.protobuf import read_et
from controller.workload.importers.chakra.pytorch import read_json
from controller.workload.importers.chakra.trace import RankTrace
from controller.workload.importers.head import Head

_RANKED = re.compile(r"\.et(\.gz)?$")


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a job from traces, all of one kind.

    Raises:
        InputError: a file is not a trace, none has communication, or they contradict each other.
    """
    traces: list[RankTrace] = []
    groups: dict[str, tuple[int, ...]] = {}
    left_out = [source for source in sources if _is_resource(source.name)]
    for source in [source for source in sources if source not in left_out]:
        content = read_json(source) if _is_json(source) else read_et(source, request.iterations)
        if isinstance(content, RankTrace):
            traces.append(content)
        else:
            groups |= content
    if not traces:
        raise InputError("none of the files is a trace", source=sources[0].name if sources else "")
    return merge(traces, groups, request, passed_over=len(left_out))


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    if head.keys >= {"schema", "nodes"} or ("record_param_comms" in head.text and '"nodes"' in head.text):
        return "an execution trace of PyTorch, of one rank"
    if "workload_graph" in head.keys:
        return "Chakra's old JSON, which has no sizes: use the .et files"
    if (not head.is_text and _RANKED.search(head.file)) or (b"comm_size" in head.data and not head.is_text):
        return "an MLCommons Chakra trace (.et), of one rank"
    return ""


def _is_resource(name: str) -> bool:
    """Return whether PyTorch put a file beside a trace: code of generated kernels, in a folder ``.._resources``."""
    folders, _, file = name.rpartition("/")
    return file.endswith(".py") or folders.endswith("_resources") or "_resources/" in folders


def _is_json(source: Source) -> bool:
    with source.open() as stream:
        return stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
