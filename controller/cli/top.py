"""``fairspine top``: a display of a running controller's busiest links, jobs and health, updated at intervals."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.client import Client, NoAnswer, described, described_rows
from controller.cli.output import (
    EXPECTED,
    FormatOption,
    OutputFormat,
    expected_cells,
    expected_line,
    moment,
    number,
    plural,
    print_json,
    size,
    table_of,
)
from controller.cli.remote import CaFileOption, Remote, TokenOption, UrlOption
from controller.model.errors import one_line

if TYPE_CHECKING:
    from rich.console import Group

_WIDE = 160

# Members that are read of the API's documents (controller.rest.schemas).
_HEALTH = ("status", "reasons", "degraded_service", "mode", "enforcement", "switches", "jobs", "flows")
_LINK = ("id", "gbps", "load_gbps", "up", "drained")
_JOB = ("name", "speed", "min_speed", "flows", "bytes", "active")
_PLAN = ("epoch", "cause", "min_speed", "bound_split", "bound_single", "gap", "moved")


@dataclass(frozen=True)
class Look:
    """The state that the controller reported at one moment.

    Attributes:
        health: the answer of ``/healthz``.
        links: the links document of the API.
        jobs: the jobs as the API lists them.
        times: mean expected slowdown of the jobs and its bound; ``None`` where no job states computing times.
        plan: summary of the newest plan; ``None`` before the first plan.
        hosts: names of hosts, whose links are not shown.
        lost: why the state is out of date; empty if it is current.
    """

    health: Mapping[str, Any]
    links: Mapping[str, Any]
    jobs: list[dict[str, Any]]
    times: Mapping[str, Any] | None
    plan: Mapping[str, Any] | None
    hosts: frozenset[str]
    lost: str = ""


def top(
    once: Annotated[bool, typer.Option("--once", help="Print once; so it does, too, where no terminal is.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.2, max=3600, help="Between two looks.")
    ] = 2.0,
    count: Annotated[int, typer.Option("--links", metavar="N", min=1, max=10_000, help="Links that are shown.")] = 15,
    url: UrlOption = None,
    token: TokenOption = None,
    ca_file: CaFileOption = None,
    format: FormatOption = OutputFormat.TABLE,
) -> None:
    """Show the busiest links, the jobs, the mode and the health, again and again until Ctrl-C.

    A link's load is measured where the controller has read its counters, and that of the plan elsewhere, if switches
    follow it. When the controller goes away, what it said last stays, with a word about that, until it is back. As
    JSON: once.
    """
    client = Remote(url, token, ca_file).client()
    look = look_at(client, None)
    if format is OutputFormat.JSON:
        print_json(json.dumps(document_of(look)).encode())
    elif once or not sys.stdout.isatty():
        print_look(look, count)
    else:
        _follow(client, look, interval, count)


def _follow(client: Client, look: Look, interval: float, count: int) -> None:
    from rich.console import Console
    from rich.live import Live

    try:
        with Live(rendered(look, count), console=Console(highlight=False), screen=True, auto_refresh=False) as live:
            while True:
                live.update(rendered(look, count), refresh=True)
                time.sleep(interval)
                try:
                    look = look_at(client, look)
                except NoAnswer as failure:
                    look = replace(look, lost=str(failure))
    except KeyboardInterrupt:
        # The user ends the command with Ctrl-C.
        return


def look_at(client: Client, before: Look | None) -> Look:
    """Read the state of the controller.

    Args:
        client: client of the controller.
        before: the previous state; the hosts are requested again only after a new plan.

    Raises:
        CommandError: the controller does not answer.
    """
    health = described(client.health().document, *_HEALTH)
    described(health["switches"], "connected", "expected")
    links = described(client.request("GET", "links").document, "links")
    described_rows(links["links"], *_LINK)
    listed = described(client.request("GET", "jobs").document, "jobs")
    jobs = described_rows(listed["jobs"], *_JOB)
    kept = described(client.request("GET", "plans", query={"limit": 1}).document, "plans")
    newest = next(iter(described_rows(kept["plans"], *_PLAN)), None)
    if (
        before is not None
        and newest is not None
        and before.plan is not None
        and before.plan["epoch"] == newest["epoch"]
    ):
        hosts = before.hosts
    else:
        fabric = described(client.request("GET", "fabric").document, "hosts")
        hosts = frozenset(str(row["name"]) for row in described_rows(fabric["hosts"], "name"))
    return Look(health, links, jobs, listed.get("times"), newest, hosts)


def print_look(look: Look, count: int) -> None:
    """Print a state with at most ``count`` links."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False).print(rendered(look, count))


def document_of(look: Look) -> dict[str, Any]:
    """Return a state as JSON."""
    return {"health": look.health, "plan": look.plan, "jobs": look.jobs, **look.links}


def rendered(look: Look, count: int) -> Group:
    """Return a state as lines and tables for rich, with at most ``count`` links."""
    from rich.console import Group
    from rich.text import Text

    lines = [Text(one_line(text), style=style) for text, style in _head(look)]
    every = [row for row in look.links["links"] if look.hosts.isdisjoint(str(row["id"]).partition(":")[0].split("->"))]
    # Only switches in mode planned follow the newest plan; what others carry is measured or not known.
    followed = look.health["mode"] == "planned"
    busiest = sorted(every, key=lambda row: (-(_load(row, followed) or 0.0), str(row["id"])))[:count]
    cells = (_link_cells(row, followed) for row in busiest)
    links = table_of(("link", "load>", "Gbit/s>", "from", "planned>", "drop/err>", "state"), cells)
    timed = look.times is not None
    columns = ("job", "speed>", "planned>", *(EXPECTED * timed), "flows>", "bytes>", "active")
    jobs = table_of(columns, (_job_cells(row, timed=timed) for row in look.jobs))
    return Group(*lines, links, jobs)


def _head(look: Look) -> list[tuple[str, str]]:
    """Return the text and style of each line above the tables."""
    health, plan, switches = look.health, look.plan, look.health["switches"]
    expected = "" if switches["expected"] is None else f" of {switches['expected']}"
    lines = [
        (
            f"{health['status']}  mode {health['mode']}, enforced by {health['enforcement']}  "
            f"{switches['connected']}{expected} switches  "
            f"{plural(health['jobs'], 'job')}, {plural(health['flows'], 'flow')}",
            "bold",
        )
    ]
    if plan is not None:
        bound = plan["bound_split"] if plan["bound_single"] is None else plan["bound_single"]
        gap = "-" if plan["gap"] is None else f"{plan['gap']:.1%}"
        lines.append(
            (
                f"plan {plan['epoch']} ({plan['cause']}): planned speed {number(plan['min_speed'])}, "
                f"best possible {number(bound)}, gap {gap}, {plural(plan['moved'], 'flow')} moved",
                "",
            )
        )
    if look.times is not None:
        lines.append((expected_line(look.times), ""))
    lines += [(f"! {reason}", "yellow") for reason in health["reasons"][:5]]
    if len(health["reasons"]) > 5:
        lines.append((f"! and {len(health['reasons']) - 5} more", "yellow"))
    lines += [(f"~ {reason}", "yellow") for reason in health["degraded_service"]]
    measured = look.links.get("measured")
    counters = "no counters yet: planned loads" if health["mode"] == "planned" else "no counters yet: loads not known"
    lines.append((f"counters of {moment(measured)} (UTC)" if measured else counters, "dim"))
    if look.lost:
        lines.append((f"as it was; {look.lost}; trying again", "bold red"))
    return lines


def _load(row: Mapping[str, Any], followed: bool) -> float | None:
    """Return the used fraction of a link's capacity: measured, else as planned if the plan is followed."""
    measured = row.get("utilisation")
    if measured is not None:
        return float(measured)
    return float(row["load_gbps"] / row["gbps"]) if followed else None


def _link_cells(row: Mapping[str, Any], followed: bool) -> tuple[str, ...]:
    measured, load = row.get("utilisation") is not None, _load(row, followed)
    rate = row.get("rate_gbps") if measured else row["load_gbps"] if followed else None
    state = "failed" if not row["up"] else "drained" if row["drained"] else "up"
    return (
        str(row["id"]),
        "-" if load is None else f"{load:.1%}",
        number(rate, 2),
        "measured" if measured else "planned" if followed else "-",
        number(row["load_gbps"], 2),
        "/".join("-" if row.get(name) is None else str(row[name]) for name in ("dropped", "errors")),
        state,
    )


def _job_cells(row: Mapping[str, Any], *, timed: bool) -> tuple[str, ...]:
    active = "yes" if row["active"] else "not yet"
    expected = expected_cells(row.get("times")) if timed else ()
    speeds = number(row["speed"]), number(row["min_speed"])
    return str(row["name"]), *speeds, *expected, str(row["flows"]), size(row["bytes"]), active
