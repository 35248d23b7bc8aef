"""Run of the packet engine: a process that reads its input, asks for plans, and prints results as JSON."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import orjson

from controller.model.fabric import FloatArray
from controller.model.traffic import Int64Array
from emulation.errors import LabError
from emulation.fluid.records import Epoch
from emulation.packets.program import built_program
from emulation.packets.settings import EventCore


class PacketJob(Protocol):
    """A job of a run."""

    @property
    def name(self) -> str:
        """Its name."""


class PathAnswers(Protocol):
    """Says which ways flows take, when the engine asks."""

    @property
    def jobs(self) -> Sequence[PacketJob]:
        """The jobs of the run, in order of its input."""

    def answer(self, cause: str, seconds: float, present: Sequence[int]) -> Sequence[str]:
        """Return the lines that change rows and paces (docs/reference/referee.md)."""


@dataclass(frozen=True, eq=False)
class PacketResults:
    """Results of a run.

    Attributes:
        ended: simulated seconds.
        stalled: whether a job did not end.
        events: that were carried out.
        epochs: their communication, in order of their ends.
        flow: [N] flow of each connection.
        delivered_bytes: [N] payload that has arrived, without what arrived twice.
        sent, sent_again, trimmed, duplicates, marked, timeouts: [N] packets of each connection, and its timeouts.
        link_bytes: [E] carried, headers and acknowledgements included.
        link_waiting: [E] most bytes that waited at once.
        link_trimmed, link_dropped: [E] packets.
        transfers: [X, 5] flow, group, run, begin and end of each transfer, if they were recorded.
        bins: [B, E] bytes carried until the begin of each bin.
    """

    ended: float
    stalled: bool
    events: int
    epochs: Sequence[Epoch]
    flow: Int64Array
    delivered_bytes: Int64Array
    sent: Int64Array
    sent_again: Int64Array
    trimmed: Int64Array
    duplicates: Int64Array
    marked: Int64Array
    timeouts: Int64Array
    link_bytes: Int64Array
    link_waiting: Int64Array
    link_trimmed: Int64Array
    link_dropped: Int64Array
    transfers: FloatArray
    bins: Int64Array


def run_packets(
    text: str, plan: PathAnswers, keep: Path | None = None, core: EventCore = EventCore.OWN
) -> PacketResults:
    """Simulate.

    Args:
        text: the input (``input_file``).
        plan: answers the questions of the engine.
        keep: folder for the input and the answers, with which the run can be repeated by hand.
        core: which program.

    Raises:
        LabError: the engine is not built, or has failed.
    """
    program = built_program(core)
    with tempfile.TemporaryDirectory(prefix="fairspine-packets-") as temporary:
        folder = Path(temporary) if keep is None else keep
        folder.mkdir(parents=True, exist_ok=True)
        file, errors = folder / "input.txt", folder / "errors.txt"
        file.write_text(text)
        with errors.open("w+") as stderr, (folder / "answers.txt").open("w") as answers:
            process = subprocess.Popen(
                [program, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
            try:
                document = _talk(process, plan, answers)
            finally:
                process.kill()
                process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None and not pipe.closed:
                        pipe.close()
        if document is None:
            last = errors.read_text().strip().splitlines()[-1:]
            raise LabError(f"the packet engine has failed: {' '.join(last) or 'no result'}")
    return _results(document, [job.name for job in plan.jobs])


def _talk(process: subprocess.Popen[str], plan: PathAnswers, answers: Any) -> dict[str, Any] | None:
    """Answer the questions of the engine until its results come; ``None``: none came."""
    assert process.stdin is not None
    assert process.stdout is not None
    for line in process.stdout:
        if not line.startswith("ask "):
            document: dict[str, Any] = orjson.loads(line + process.stdout.read())
            return document
        _, cause, seconds, *present = line.split()
        text = "\n".join([*plan.answer(cause, float(seconds), [int(j) for j in present]), "go", ""])
        answers.write(text)
        process.stdin.write(text)
        process.stdin.flush()
    return None


def _results(document: dict[str, Any], names: Sequence[str]) -> PacketResults:
    def columns(name: str, width: int) -> Int64Array:
        return np.array(document[name], dtype=np.int64).reshape(-1, width).T

    flow, delivered, sent, again, trimmed, duplicates, marked, timeouts = columns("connections", 8)
    carried, waiting, link_trimmed, link_dropped = columns("links", 4)
    return PacketResults(
        ended=float(document["ended"]),
        stalled=bool(document["stalled"]),
        events=int(document["events"]),
        epochs=[Epoch(names[int(j)], int(number), began, ended) for j, number, began, ended in document["epochs"]],
        flow=flow,
        delivered_bytes=delivered,
        sent=sent,
        sent_again=again,
        trimmed=trimmed,
        duplicates=duplicates,
        marked=marked,
        timeouts=timeouts,
        link_bytes=carried,
        link_waiting=waiting,
        link_trimmed=link_trimmed,
        link_dropped=link_dropped,
        transfers=np.array(document["transfers"], dtype=np.float64).reshape(-1, 5),
        bins=np.array(document["bins"], dtype=np.int64),
    )
