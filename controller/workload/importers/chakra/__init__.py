"""Execution traces to a job: MLCommons Chakra (``.et``) and PyTorch (JSON), a file a rank.

* *Ranks*: from the files' names (``trace.3.et``) or, in JSON, from what they say; else in the order of the files. There
  are as many as the files, the groups and the peers need.
* *Groups*: as traces name them; for Chakra also a file of groups as ASTRA-sim has it (``{"0": [0, 1], ..}``). A trace
  that names none means all ranks.
* *Bytes*: all runs of an operation in a group are one collective, with their sizes added up over the trace and divided
  by the iterations that it covers. All ranks of a group tell of the same runs, so the largest tale counts, and a note
  says where they differ. What an all-to-all sends whom is taken from its splits where they are there.
* Sends are flows, one for each pair of ranks; so are gathers and scatters.
* *Phases*: the operations of one group run one after the other. Where only one group has any, each of its collectives
  has a phase of its own; where several have, all are in phase 0, because nothing tells which overlap.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.model.errors import InputError
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.chakra.merge import merge
from controller.workload.importers.chakra.protobuf import read_et
from controller.workload.importers.chakra.pytorch import read_json
from controller.workload.importers.chakra.trace import RankTrace


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """A job from traces, all of one kind.

    Raises:
        InputError: a file is no trace, none tells of communication, or they contradict each other.
    """
    traces: list[RankTrace] = []
    groups: dict[str, tuple[int, ...]] = {}
    for source in sources:
        found = read_json(source) if _is_json(source) else read_et(source)
        if isinstance(found, RankTrace):
            traces.append(found)
        else:
            groups |= found
    if not traces:
        raise InputError("no trace is among the files", source=sources[0].name if sources else "")
    return merge(traces, groups, request)


def _is_json(source: Source) -> bool:
    with source.open() as stream:
        return stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
