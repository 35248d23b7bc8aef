"""Slurm's host lists: ``node[001-016,20],login1`` names eighteen nodes (man scontrol, "hostlist")."""

from __future__ import annotations

import re

from controller.model.errors import InputError
from controller.workload.importers.fields import MAX_RANKS

_PART = re.compile(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*")
_BRACKETS = re.compile(r"\[[^\]]*\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def expand(text: str) -> list[str]:
    """Expand a host list: ``a[1-3,7],b`` is a1, a2, a3, a7 and b.

    Raises:
        InputError: the text is not a host list, or longer than the most ranks of a job.
    """
    if not text:
        return []
    names: list[str] = []
    for part in _PART.findall(text):
        names += _expanded(part)
        if len(names) > MAX_RANKS:
            raise InputError(f"there are more than {MAX_RANKS} names", value=text)
    if not names or text.count("[") != text.count("]") or any(not part for part in _BRACKETS.sub("_", text).split(",")):
        raise InputError("is not a list of names", value=text)
    return names


def read_names(text: str, field: str) -> list[str]:
    """Expand the host list of an option or a field.

    Raises:
        InputError: it is none, or has no names; names the field.
    """
    try:
        names = expand(text)
    except InputError as error:
        raise InputError(error.reason, field=field, value=error.value) from None
    if not names:
        raise InputError("has no names", field=field, value=text)
    return names


def _expanded(part: str) -> list[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        return [head]
    inside, _, tail = rest.partition("]")
    tails = _expanded(tail) if tail else [""]
    names: list[str] = []
    for piece in inside.split(","):
        match = _RANGE.fullmatch(piece)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise InputError("is not a range of a list of names", value=piece)
        first, last = int(match[1]), int(match[2] or match[1])
        if len(names) + (last - first + 1) * len(tails) > MAX_RANKS:
            raise InputError(f"there are more than {MAX_RANKS} names", value=piece)
        names += [f"{head}{i:0{len(match[1])}d}{end}" for i in range(first, last + 1) for end in tails]
    return names
