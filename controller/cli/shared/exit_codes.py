"""The exit codes of each command, as its help, the manual page and the documentation list them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from controller.cli.shared.command_error import CHANGED_MEANWHILE, NO_PATH, NOT_POSSIBLE, PARTLY, UNKNOWN

DONE, FAILED, INVALID, INTERRUPTED = 0, 1, 2, 130

EVERY: Mapping[int, str] = {
    DONE: "done",
    FAILED: "it could not be done",
    INVALID: "the command line or a file is invalid; nothing has changed",
}
"""Meaning of the codes that all commands have, where the command does not say more."""

_UNROUTABLE = "it could not be done, or some flow has no live path; the other flows are planned"
_CHANGED = "the job was changed meanwhile, or exists; nothing has changed"
_NOT_CONFIRMED = "it could not be done, or the switches have not confirmed the new paths in time (--wait)"

OWN: Mapping[str, Mapping[int, str]] = {
    "apply": {CHANGED_MEANWHILE: "a job was changed meanwhile; the jobs before it have been made"},
    "compare": {FAILED: _UNROUTABLE},
    "diff": {DONE: "nothing would change", FAILED: "something would change, or it could not be found out"},
    "doctor": {DONE: "no problem", FAILED: "there is a problem: something that the controller needs"},
    "drain": {
        DONE: "all are drained: their cables carry no traffic by the newest plan (--wait: nor by the switches' rules)",
        FAILED: _NOT_CONFIRMED,
        PARTLY: "partly: some cables stay in use",
        NOT_POSSIBLE: "not possible: all cables of some id stay in use",
    },
    "emulate": {
        FAILED: "it could not be done, a result is wrong, a flow was counted on another path than planned, or (with a "
        "scenario) the ratio of the times of two policies differs by 15 % from that of the simulator"
    },
    "jobs delete": {CHANGED_MEANWHILE: "the job was changed meanwhile; nothing has changed"},
    "plan": {FAILED: _UNROUTABLE},
    "preview": {DONE: "previewed", INVALID: "invalid input, or the jobs cannot be enforced so"},
    "push": {
        FAILED: "it could not be done, or the plan is not active in time (--wait)",
        CHANGED_MEANWHILE: f"{_CHANGED} (--if-match, --create)",
    },
    "referee": {
        FAILED: "it could not be done, or packets differ from the fluid model by more than a tolerance",
        INTERRUPTED: "interrupted; the report has the cases that were whole, if any",
    },
    "replay": {INVALID: "the command line or a file is invalid, or the files contain no task graph"},
    "simulate": {
        FAILED: "it could not be done, a job waited for a path that never became available, or a target of the "
        "scenario was not reached",
        INTERRUPTED: "interrupted; a new start continues from there",
    },
    "status": {
        DONE: "the health is ok, and no job stands still",
        FAILED: "it is not, some flow of a job cannot arrive, or there is no answer; degraded service is no fault",
    },
    "trace": {
        DONE: "all flows are on their planned paths",
        FAILED: "some flow is not on its planned path, or it could not be found out",
        UNKNOWN: "the paths of some flows are not known, and the others are as planned",
        NO_PATH: "some flow has no path, and the others are as planned",
    },
    "undrain": {FAILED: _NOT_CONFIRMED},
}
"""What commands say otherwise or in addition."""


def codes_of(words: Sequence[str]) -> dict[int, str]:
    """Return the meanings of the exit codes of a command, by the words of its name, in ascending order."""
    codes = {**EVERY, **OWN.get(" ".join(words), {})}
    return dict(sorted(codes.items()))


def leaves(command: Any, words: Sequence[str] = ()) -> Iterator[tuple[list[str], Any]]:
    """Yield each command that can be called, with the words of its name."""
    for name in sorted(command.commands):
        one, path = command.commands[name], [*words, name]
        is_group = getattr(one, "commands", None) is not None
        if not is_group or one.invoke_without_command:
            yield path, one
        if is_group:
            yield from leaves(one, path)


def describe_exit_codes(program: Any) -> None:
    """Add the exit codes to the help of every command, before its example."""
    for words, command in leaves(program):
        codes = "; ".join(f"{code}: {meaning}" for code, meaning in codes_of(words).items())
        command.epilog = f"Exit codes: {codes}.\n\n{command.epilog or ''}".rstrip()
