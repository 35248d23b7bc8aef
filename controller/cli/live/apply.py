"""``fairspine apply`` and ``fairspine diff``: the jobs of a running controller made those of a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli.connection.client import Client, described, described_rows
from controller.cli.connection.remote import Remote
from controller.cli.shared.change_options import ChangeOptions
from controller.cli.shared.command_error import CommandError, naming_file
from controller.cli.shared.output import Printer, number, plural
from controller.model.errors import InputError

SUFFIXES = (".json", ".yaml", ".yml")
"""Names of job files end in one of these; other files of a folder are left out."""

FolderArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder of job files (JSON or YAML).", show_default=False)
]
PruneOption = Annotated[
    bool, typer.Option("--prune", help="Delete the jobs of the controller that the folder does not have.")
]


@dataclass(frozen=True)
class AppliedJob:
    """The change of one job. ``change``: ``create``, ``replace``, ``keep`` or ``delete``; ``body``: empty to delete.

    ``file`` is where the body is from.
    """

    name: str
    change: str
    body: bytes = b""
    revision: str | None = None
    file: Path = Path()


def apply(
    folder: FolderArgument,
    prune: PruneOption = False,
    *,
    remote: Remote,
    change: ChangeOptions,
    output: Printer,
) -> None:
    """Make the jobs of the controller those of a folder: create new ones, and replace those that differ.

    The whole change is checked first: if a file is wrong, or the controller cannot plan the jobs, nothing changes. Jobs
    that are as in the folder are left alone, so the command can be repeated.
    """
    client = remote.client(change)
    changes = _changes(client, folder, prune)
    to_do = [one for one in changes if one.change != "keep"]
    if to_do:
        _previewed(client, to_do)
    done: list[str] = []
    for one in to_do:
        try:
            _make(client, one)
        except CommandError as failure:
            made = f" (already done: {', '.join(done)})" if done else ""
            raise CommandError(f"{one.name}: {failure}{made}", exit_code=failure.exit_code) from None
        done.append(one.name)
    if output.is_table:
        _print(output, changes, {"create": "created", "replace": "replaced", "keep": "unchanged", "delete": "deleted"})
    else:
        output.document({"jobs": [{"job": one.name, "change": one.change} for one in changes]})


def diff(folder: FolderArgument, prune: PruneOption = False, *, remote: Remote, output: Printer) -> None:
    """Show what 'fairspine apply' would change, and the speed of each job before and after."""
    client = remote.client()
    changes = _changes(client, folder, prune)
    to_do = [one for one in changes if one.change != "keep"]
    preview = _previewed(client, to_do) if to_do else None
    if not output.is_table:
        output.document({"jobs": [{"job": one.name, "change": one.change} for one in changes], "preview": preview})
    else:
        _print(output, changes, {"keep": "-"})
        if preview is not None:
            output.table(
                f"{plural(preview['moved_count'], 'flow')} would move; slowest collective of each job",
                ("job", "before>", "after>"),
                ((row["job"], number(row["before"]), number(row["after"])) for row in preview["jobs"]),
            )
    if to_do:
        raise CommandError(f"{plural(len(to_do), 'job')} would change")


def _changes(client: Client, folder: Path, prune: bool) -> list[AppliedJob]:
    """Return what becomes of each job, by name.

    Raises:
        InputError: the folder or one of its files cannot be used, or two files have the same job.
    """
    listed = described(client.request("GET", "jobs").document, "jobs")["jobs"]
    present = {row["name"]: row for row in described_rows(listed, "name", "revision", "digest")}
    changes = []
    wanted = _bodies(folder)
    for name, (body, file) in sorted(wanted.items()):
        row = present.get(name)
        if row is None:
            changes.append(AppliedJob(name, "create", body, file=file))
        else:
            same = row["digest"] == hashlib.sha256(body).hexdigest()
            changes.append(AppliedJob(name, "keep" if same else "replace", body, row["revision"], file))
    if prune:
        gone = sorted(set(present) - set(wanted))
        changes += [AppliedJob(name, "delete", revision=present[name]["revision"]) for name in gone]
    return changes


def _bodies(folder: Path) -> dict[str, tuple[bytes, Path]]:
    """Return the body to send for each job of a folder, and its file; equal files give equal bodies."""
    import orjson

    from controller.model.files.fabric_file import read_document
    from controller.workload.job_file import parse_job

    try:
        files = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())
    except OSError as error:
        raise InputError(error.strerror or str(error), field="DIR", value=str(folder)) from None
    if not files:
        raise InputError(f"contains no job files ({', '.join(SUFFIXES)})", field="DIR", value=str(folder))
    bodies: dict[str, tuple[bytes, Path]] = {}
    for path in files:
        document = read_document(path)
        name = parse_job(document, source=str(path)).name
        if name in bodies:
            raise InputError(f"{bodies[name][1]} has this job, too", source=str(path), field="name", value=name)
        bodies[name] = orjson.dumps({**document, "name": name}, option=orjson.OPT_SORT_KEYS), path
    return bodies


def _previewed(client: Client, to_do: Sequence[AppliedJob]) -> dict[str, Any]:
    """Return the preview of all changes as one; the controller refuses it if it cannot admit all of them."""
    import orjson

    put = [one for one in to_do if one.body]
    form = {
        "put": [orjson.Fragment(one.body) for one in put],
        "delete": [one.name for one in to_do if not one.body],
    }
    body = orjson.dumps({name: value for name, value in form.items() if value})
    try:
        answer = client.request("POST", "plans:preview", body=body).document
    except CommandError as failure:
        raise naming_file(failure, [one.file for one in put]) from None
    preview = described(answer, "moved_count", "jobs")
    described_rows(preview["jobs"], "job", "before", "after")
    return preview


def _make(client: Client, one: AppliedJob) -> None:
    # What was changed by someone else since it was read is not overwritten.
    if_match = None if one.revision is None else f'"{one.revision}"'
    if one.change == "delete":
        client.request("DELETE", "jobs", one.name, if_match=if_match)
    else:
        new = "*" if one.revision is None else None
        client.request("PUT", "jobs", one.name, body=one.body, if_match=if_match, if_none_match=new)


def _print(output: Printer, changes: Sequence[AppliedJob], words: dict[str, str]) -> None:
    output.table(
        plural(len(changes), "job"),
        ("job", "change"),
        ((one.name, words.get(one.change, one.change)) for one in changes),
    )
