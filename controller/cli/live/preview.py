"""``fairspine preview``: the effect of a change at a running controller, without making the change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli.connection import completion
from controller.cli.connection.client import described, described_rows
from controller.cli.connection.remote import Remote
from controller.cli.live.mode import ModeName
from controller.cli.shared.command_error import CommandError, naming_file
from controller.cli.shared.enforcement_help import ENFORCEMENTS_TEXT
from controller.cli.shared.output import Printer, expected_speed, number, plural
from controller.cli.shared.policy_help import POLICIES_TEXT
from controller.model.units import LARGEST_EXACT

_VALUE = (
    *("policy", "seed", "mode", "enforcement", "slowest", "expected", "most_rules", "min_speed", "min_level"),
    *("bound_split", "bound_single", "gap", "flows", "unroutable"),
)
_NAMED = 10  # number of moved flows that are printed; the JSON has up to 1,000

Names = list[str] | None


def preview(
    put: Annotated[
        list[Path] | None,
        typer.Option("--put", metavar="JOB", help="A job to push (JSON or YAML); may be given several times."),
    ] = None,
    delete: Annotated[
        Names,
        typer.Option(
            "--delete",
            metavar="NAME",
            help="A job to delete; may be given several times.",
            autocompletion=completion.jobs,
        ),
    ] = None,
    drain: Annotated[
        Names,
        typer.Option(
            "--drain",
            metavar="ID",
            help="A cable, switch, pod or plane to drain; may be given several times.",
            autocompletion=completion.switches_and_cables,
        ),
    ] = None,
    undrain: Annotated[
        Names,
        typer.Option(
            "--undrain",
            metavar="ID",
            help="A cable, switch, pod or plane to use again; may be given several times.",
            autocompletion=completion.switches_and_cables,
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy", help=f"The routing policy to use; {POLICIES_TEXT}.", autocompletion=completion.policies
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, max=LARGEST_EXACT, help="Another seed.")] = None,
    mode: Annotated[ModeName | None, typer.Option("--mode", help="Another mode.")] = None,
    enforcement: Annotated[
        str | None,
        typer.Option(
            "--enforcement",
            metavar="NAME",
            help=f"Another way in which switches follow plans: {ENFORCEMENTS_TEXT}.",
            autocompletion=completion.enforcements,
        ),
    ] = None,
    *,
    remote: Remote,
    output: Printer,
) -> None:
    """Show the effect of a change without making it: the plan before and after, moved flows, the speed of each job.

    All options together are one change to the present state. The speeds are those in the mode: with --mode ecmp, where
    switches hash all flows, they are the expected outcome, with its range over several hash seeds.
    """
    import orjson

    files = put or []
    form: dict[str, Any] = {
        "put": [_job(file) for file in files],
        "delete": delete or [],
        "drain": drain or [],
        "undrain": undrain or [],
        "policy": policy,
        "seed": seed,
        "mode": mode,
        "enforcement": enforcement,
    }
    body = orjson.dumps({name: value for name, value in form.items() if value not in (None, [])})
    client = remote.client()
    try:
        answer = client.request("POST", "plans:preview", body=body).document
    except CommandError as failure:
        raise naming_file(failure, files) from None
    document = _preview(answer)
    if not output.is_table:
        output.document(document)
    else:
        _print(output, document)


def _job(file: Path) -> dict[str, Any]:
    """Return the document of a job file, with the job's name."""
    from controller.model.files.fabric_file import read_document
    from controller.workload.job_file import parse_job

    document = read_document(file)
    name = parse_job(document, source=str(file)).name
    return {**document, "name": name}


def _preview(answer: Any) -> dict[str, Any]:
    """Return the answer after checking that it is a ``PreviewDocument``."""
    document = described(answer, "epoch", "before", "after", "moved_count", "moved", "jobs", "drains", "still_used")
    for side in ("before", "after"):
        described(document[side], *_VALUE)
    described_rows(document["jobs"], "job", "before", "after")
    return document


def _print(output: Printer, document: dict[str, Any]) -> None:
    output.table(
        f"compared with plan {document['epoch']}: {plural(document['moved_count'], 'flow')} would move",
        (
            *("", "policy", "seed>", "mode", "enforcement", "rules>", "flows>", "without path>", "slowest job>"),
            *("planned>", "min level>", "bound, split>", "bound, single>", "gap>"),
        ),
        (
            (
                side,
                value["policy"],
                str(value["seed"]),
                value["mode"],
                value["enforcement"],
                str(value["most_rules"]),
                str(value["flows"]),
                str(value["unroutable"]),
                expected_speed(value["slowest"], value["expected"]),
                number(value["min_speed"]),
                number(value["min_level"]),
                number(value["bound_split"]),
                number(value["bound_single"]),
                number(value["gap"]),
            )
            for side, value in (("before", document["before"]), ("after", document["after"]))
        ),
        give_up=(
            *("seed>", "min level>", "bound, split>", "policy", "bound, single>", "rules>", "enforcement", "mode"),
            "planned>",
        ),
    )
    output.table(
        "slowest collective of each job",
        ("job", "before>", "after>"),
        (
            (
                row["job"],
                expected_speed(row["before"], row.get("before_expected")),
                expected_speed(row["after"], row.get("after_expected")),
            )
            for row in document["jobs"]
        ),
    )
    moved = document["moved"]
    if moved:
        more = document["moved_count"] - len(moved[:_NAMED])
        output.line(f"would move: {', '.join(moved[:_NAMED])}" + (f" and {more} more" if more else ""))
    if document["still_used"]:
        cables = ", ".join(document["still_used"])
        output.line(f"would stay in use because no other path connects two leaves: {cables}")
