"""GOAL schedules as text.

For example::

num_ranks 2
rank 0 {
l1: calc 100 cpu 0
l2: send 10b to 1 tag 7
l2 requires l1
}
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from controller.workload.importers.base import Source
from controller.workload.importers.fields import SourceLine
from controller.workload.importers.goal.match import GoalSchedule
from controller.workload.importers.streams import lines

_RANK = re.compile(r"rank\s+(\d{1,9})\s*\{?")
_OPERATION = re.compile(
    r"(?:([A-Za-z_]\w{0,99})\s*:\s*)?"
    r"(?:calc\s+(\d{1,18})|(send|recv)\s+(\d{1,18})b?\s+(?:to\s+(?=\d)|from\s+)(-1|\d{1,9}))"
    r"((?:\s+tag\s+-1|\s+(?:tag|cpu|nic)\s+\d{1,10})*)"
)
_REQUIRES = re.compile(r"([A-Za-z_]\w{0,99})\s+(i?)requires\s+([A-Za-z_]\w{0,99})")
_OPTION = re.compile(r"(tag|cpu|nic)\s+(-1|\d{1,10})")


def read_text(source: Source, schedule: GoalSchedule) -> None:
    """Add all ranks' operations.

    Raises:
        InputError: a line does not match the grammar, a label is duplicate or unknown, or ranks do not exist.
    """
    rank = -1
    labels: dict[str, int] = {}
    seen: set[int] = set()
    for place, line in _statements(source):
        where = f"line {place.line}"
        if line.startswith("num_ranks"):
            schedule.ranks(place.whole(line.removeprefix("num_ranks").strip(), "num_ranks"), where)
        elif match := _RANK.fullmatch(line):
            rank, labels = int(match[1]), {}
            if rank >= schedule.n_ranks or rank in seen:
                why = "is described twice" if rank in seen else f"there are {schedule.n_ranks} ranks (num_ranks)"
                raise schedule.error(why, where, rank)
            seen.add(rank)
        elif line == "{":
            continue
        elif line == "}":
            rank = -1
        elif rank < 0:
            raise place.error("is outside of a rank", line)
        elif match := _OPERATION.fullmatch(line):
            task = _operation(schedule, rank, match, where)
            if match[1] and labels.setdefault(match[1], task) != task:
                raise place.error("this label is defined already", match[1])
        elif match := _REQUIRES.fullmatch(line):
            ends = [labels.get(match[i], -1) for i in (1, 3)]
            if min(ends) < 0:
                raise place.error("no operation has this label", match[1] if ends[0] < 0 else match[3])
            (schedule.irequires if match[2] else schedule.requires)(ends[0], ends[1])
        else:
            raise place.error("is not a statement of GOAL", line)
    if not schedule.n_ranks:
        raise schedule.error("is missing", "num_ranks")
    if not seen:
        raise schedule.error("has no rank", "rank")


def _statements(source: Source) -> Iterator[tuple[SourceLine, str]]:
    """Yield lines without comments (``/* */``, ``//`` and ``#``) and without white space around them."""
    inside = False
    for number, text in lines(source):
        kept = ""
        while text:
            if inside:
                _, end, text = text.partition("*/")
                inside = not end
            else:
                before, begin, text = text.partition("/*")
                kept += before
                inside = bool(begin)
        kept = kept.partition("#")[0].partition("//")[0].strip().rstrip(";").strip()
        place = SourceLine(source, number)
        # "rank 0 {" and "}" may share a line with others.
        for part in re.split(r"(?<=\{)|(?=\})|(?<=\})", kept):
            if part.strip():
                yield place, part.strip()


def _operation(schedule: GoalSchedule, rank: int, match: re.Match[str], where: str) -> int:
    options = {name: int(value) for name, value in _OPTION.findall(match[6] or "")}
    if match[2] is not None:
        return schedule.calc(rank, int(match[2]), options.get("cpu", 0), where)
    add = schedule.send if match[3] == "send" else schedule.receive
    return add(rank, int(match[5]), int(match[4]), options.get("tag", 0), where)
