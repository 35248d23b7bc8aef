"""``fairspine top``: a display of a running controller's busiest links, jobs and health, updated at intervals."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from controller.cli.connection.client import Client, described, described_rows
from controller.cli.connection.remote import Remote
from controller.cli.connection.watch import Watch
from controller.cli.shared.output import (
    EXPECTED,
    TENANT,
    Printer,
    activity,
    expected_cells,
    expected_line,
    link_state,
    moment,
    number,
    plural,
    print_tenants,
    screen,
    size,
)

_LONGEST_CAUSE = 40  # characters
_FEWEST = 3  # links, and jobs, that are shown on the smallest screen
_TENANT_LINES = 5  # lines of the table of tenants beside its rows
_TABLE_LINES = 10  # lines of two tables beside their rows, and one each for what is not shown, and for the prompt

LinksOption = Annotated[
    int | None,
    typer.Option(
        "--links",
        metavar="N",
        min=1,
        max=10_000,
        help="Number of links to show.  [default: as many as fit]",
        show_default=False,
    ),
]

# Members that are read of the API's documents (controller.rest.schemas).
_HEALTH = ("status", "reasons", "degraded_service", "mode", "enforcement", "switches", "jobs", "flows", "slowest_job")
_LINK = ("id", "gbps", "load_gbps", "up", "drained")
_JOB = ("name", "speed", "min_speed", "flows", "bytes", "active")
_PLAN = ("epoch", "cause", "min_speed", "bound_split", "bound_single", "gap", "moved", "flows", "unroutable")


@dataclass(frozen=True)
class Look:
    """The state that the controller reported at one moment.

    Attributes:
        health: the answer of ``/v1/health``.
        links: the links document of the API.
        jobs: the jobs as the API lists them.
        times: mean expected slowdown of the jobs and its bound; ``None`` where no job states computing times.
        plan: summary of the newest plan; ``None`` before the first plan.
        hosts: names of hosts, whose links are not shown.
        tenants: what the jobs of each get; empty on a fabric without tenants.
    """

    health: Mapping[str, Any]
    links: Mapping[str, Any]
    jobs: list[dict[str, Any]]
    times: Mapping[str, Any] | None
    plan: Mapping[str, Any] | None
    hosts: frozenset[str]
    tenants: Sequence[Mapping[str, Any]] = ()


def top(
    once: Annotated[
        bool, typer.Option("--once", help="Print once; also the behaviour if the output is not a terminal.")
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.2, max=3600, help="Seconds between two refreshes.")
    ] = 2.0,
    count: LinksOption = None,
    *,
    remote: Remote,
    output: Printer,
) -> None:
    """Show the busiest links, the jobs, the mode and the health, and refresh them until Ctrl-C.

    The load of a link is measured if the controller has its counters, else planned. If the controller is not reachable,
    the last state stays, with a note, until it is reachable again. With --format json or yaml the state is printed
    once.
    """
    client = remote.client()
    look: Look | None = None

    def show() -> None:
        nonlocal look
        look = look_at(client, look)
        if output.is_table:
            print_look(output, look, count)
        else:
            output.document(document_of(look))

    Watch(output.is_table and not once and sys.stdout.isatty(), interval).show(show)


def look_at(client: Client, before: Look | None) -> Look:
    """Read the state of the controller.

    Args:
        client: client of the controller.
        before: the previous state; the hosts are requested again only after a new plan.

    Raises:
        CommandError: the controller does not answer.
    """
    health = described(client.request("GET", "health").document, *_HEALTH)
    described(health["switches"], "connected", "expected")
    described(health["slowest_job"], "job", "speed", "unknown")
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
    tenants = described_rows(listed.get("tenants") or [], *TENANT)
    return Look(health, links, jobs, listed.get("times"), newest, hosts, tenants)


def print_look(output: Printer, look: Look, count: int | None) -> None:
    """Print a state on one screen, or with ``count`` links however many lines this needs."""
    lines = _head(look, max(screen().lines // 10, 2))
    every = [row for row in look.links["links"] if look.hosts.isdisjoint(str(row["id"]).partition(":")[0].split("->"))]
    lines += _plane_lines(every, look.health["mode"] == "planned")
    below = len(look.tenants) and len(look.tenants) + _TENANT_LINES
    for text, style in lines:
        output.line(text, style)
    # Only switches in mode planned follow the newest plan; what others carry is measured or not known.
    followed = look.health["mode"] == "planned"
    busiest = sorted(every, key=lambda row: (-(_load(row, followed) or 0.0), str(row["id"])))
    room = max(screen().lines - sum(output.height(text) for text, _ in lines) - _TABLE_LINES - below, 2 * _FEWEST)
    n_jobs = len(look.jobs) if output.wide else min(len(look.jobs), max(room // 2, room - len(busiest)))
    n_links = count or (len(busiest) if output.wide else room - n_jobs)
    planes = any(row.get("plane") for row in every)
    without = output.table(
        "",
        ("link", *(("plane>",) * planes), "load>", "Gbit/s>", "from", "planned>", "drop/err>", "state"),
        (_link_cells(row, followed, planes=planes) for row in busiest[:n_links]),
        give_up=("planned>", "drop/err>", "from"),
        note=False,
    )
    timed = look.times is not None
    # Where not all fit, the slowest are of interest.
    jobs = look.jobs if n_jobs == len(look.jobs) else sorted(look.jobs, key=_slowness)[:n_jobs]
    without += output.table(
        "",
        ("job", "speed>", "planned>", *(EXPECTED * timed), "flows>", "bytes>", "active"),
        (_job_cells(row, timed=timed) for row in jobs),
        give_up=("bytes>", "duty>", "flows>", "iteration>"),
        note=False,
    )
    if look.tenants:
        print_tenants(output, look.tenants)
    if len(jobs) < len(look.jobs):
        without.insert(0, plural(len(look.jobs) - len(jobs), "faster job"))
    if without:
        output.line(f"--wide also shows: {', '.join(without)}", "dim")


def _slowness(job: Mapping[str, Any]) -> float:
    """Return the value by which jobs are sorted, the slowest first; unknown speeds are sorted as the planned ones."""
    speed = job["min_speed"] if job["speed"] is None else job["speed"]
    return float("inf") if speed is None else float(speed)


def document_of(look: Look) -> dict[str, Any]:
    """Return a state as JSON."""
    tenants = {"tenants": look.tenants} if look.tenants else {}
    return {"health": look.health, "plan": look.plan, "jobs": look.jobs, **tenants, **look.links}


def _head(look: Look, reasons: int) -> list[tuple[str, str]]:
    """Return the text and style of each line above the tables."""
    health, plan = look.health, look.plan
    lines = [
        (
            f"{health['status']}  mode {health['mode']}, enforced by {health['enforcement']}  "
            f"{_followers(health)}  "
            f"{plural(health['jobs'], 'job')}, {plural(health['flows'], 'flow')}",
            "bold",
        )
    ]
    lines.append(_slowest_line(health))
    if plan is not None:
        bound = plan["bound_split"] if plan["bound_single"] is None else plan["bound_single"]
        gap = "-" if plan["gap"] is None else f"{plan['gap']:.1%}"
        lines.append(
            (
                f"plan {plan['epoch']} ({_short(plan['cause'])}): planned {number(plan['min_speed'])}, "
                f"best {number(bound)}, gap {gap}, {plural(plan['moved'], 'flow')} moved{_left_out(plan)}",
                "",
            )
        )
    if look.times is not None:
        lines.append((expected_line(look.times), ""))
    lines += [(f"! {reason}", "yellow") for reason in health["reasons"][:reasons]]
    if len(health["reasons"]) > reasons:
        lines.append((f"! and {len(health['reasons']) - reasons} more", "yellow"))
    lines += [(f"~ {reason}", "yellow") for reason in health["degraded_service"]]
    measured = look.links.get("measured")
    read = {"circuits": "counters of panels are not shown"}.get(str(health["enforcement"]), "routers are not read")
    none = read if health.get("agents") else "no counters yet"
    counters = f"{none}: planned loads" if health["mode"] == "planned" else f"{none}: loads not known"
    lines.append((f"counters of {moment(measured)} (UTC)" if measured else counters, "dim"))
    return lines


def _followers(health: Mapping[str, Any]) -> str:
    """Return how many of those that are to follow plans do."""
    agents, switches = health.get("agents"), health["switches"]
    if agents is not None:
        return f"{agents['confirmed']} of {agents['expected']} agents"
    expected = "" if switches["expected"] is None else f" of {switches['expected']}"
    return f"{switches['connected']}{expected} switches"


def _slowest_line(health: Mapping[str, Any]) -> tuple[str, str]:
    """Return the line on the slowest job now, and its style."""
    slowest = health["slowest_job"]
    if slowest["speed"] is not None:
        stands = " (some flow cannot arrive)" if slowest["speed"] == 0 else ""
        style = "bold red" if slowest["speed"] == 0 else "bold"
        return f"slowest job now: {number(slowest['speed'])}, {slowest['job']}{stands}", style
    if slowest["unknown"]:
        return f"slowest job now: unknown ({slowest['unknown']})", "yellow"
    return "slowest job now: no job uses the network", "dim"


def _left_out(plan: Mapping[str, Any]) -> str:
    """Return what the best value and the gap leave out, for the end of their line; empty: nothing."""
    if not plan["unroutable"]:
        return ""
    return f"; best and gap leave out {plan['unroutable']} of {plural(plan['flows'], 'flow')}, which have no path"


def _plane_lines(links: Iterable[Mapping[str, Any]], followed: bool) -> list[tuple[str, str]]:
    """Return a line with the mean and highest load of each plane, and what is down or drained; none without planes."""
    by_plane: dict[int, list[Mapping[str, Any]]] = {}
    for row in links:
        if row.get("plane"):
            by_plane.setdefault(row["plane"], []).append(row)
    planes = []
    for plane, rows in sorted(by_plane.items()):
        loads = [load for row in rows if row["up"] and (load := _load(row, followed)) is not None]
        text = f"{sum(loads) / len(loads):.0%}, {max(loads):.0%}" if loads else "-"
        # Each cable has two directed links.
        counts = {"down": sum(not row["up"] for row in rows) // 2, "drained": sum(row["drained"] for row in rows) // 2}
        lost = [f"{count} of {len(rows) // 2} cables {state}" for state, count in counts.items() if count]
        planes.append(f"plane{plane} {text}" + (f" ({', '.join(lost)})" if lost else ""))
    return [(f"load of planes, mean and highest: {'; '.join(planes)}", "")] if planes else []


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_CAUSE else f"{text[: _LONGEST_CAUSE - 1]}…"


def _load(row: Mapping[str, Any], followed: bool) -> float | None:
    """Return the used fraction of a link's capacity: measured, else as planned if the plan is followed."""
    measured = row.get("utilisation")
    if measured is not None:
        return float(measured)
    return float(row["load_gbps"] / row["gbps"]) if followed else None


def _link_cells(row: Mapping[str, Any], followed: bool, *, planes: bool) -> tuple[str, ...]:
    measured, load = row.get("utilisation") is not None, _load(row, followed)
    rate = row.get("rate_gbps") if measured else row["load_gbps"] if followed else None
    return (
        str(row["id"]),
        *((str(row.get("plane") or "-"),) * planes),
        "-" if load is None else f"{load:.1%}",
        number(rate, 2),
        "measured" if measured else "planned" if followed else "-",
        number(row["load_gbps"], 2),
        "/".join("-" if row.get(name) is None else str(row[name]) for name in ("dropped", "errors")),
        link_state(row),
    )


def _job_cells(row: Mapping[str, Any], *, timed: bool) -> tuple[str, ...]:
    active = activity(row["active"], row["flows"])
    expected = expected_cells(row.get("times")) if timed else ()
    speeds = number(row["speed"]), number(row["min_speed"])
    return str(row["name"]), *speeds, *expected, str(row["flows"]), size(row["bytes"]), active
