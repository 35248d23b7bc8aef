"""Tables of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from controller.cli.output import moment, number, plural, print_table, size
from controller.telemetry.trace_summary import is_unknown

_SHOWN = 20  # number of flows in the table, those off their planned paths first; the JSON has all of them
_COLLIDING = 6  # largest number of flows that are named for a hot link


def print_trace(document: Mapping[str, Any], differs: bool) -> None:
    """Print the imbalance of layers, the hot links and the flows of a trace.

    Args:
        document: ``controller.rest.schemas.TraceBody`` or ``TraceDocument``.
        differs: list only flows that are not on their planned paths.
    """
    _print_layers(document)
    flows = {flow["id"]: flow for flow in document["flows"]}
    _print_hot("hot links: busy for longer than the mean of their layer, with several flows", document["hot"], flows)
    compared = document.get("compare")
    if compared:
        worst = f"hot links under {compared['policy']} with the worst of {compared['seeds']} seeds"
        _print_hot(worst, compared["hot"], flows)
    _print_flows(document, differs)


def _print_layers(document: Mapping[str, Any]) -> None:
    compared = document.get("compare")
    columns = ["layer", "links>", "counted in", "FIM>", "max / mean>", "CV>"]
    if compared:
        columns += [f"FIM, {compared['policy']}>", "from>", "to>"]
    rows = []
    for i, layer in enumerate(document["layers"]):
        for unit in ("flows", "bytes"):
            each = layer[unit]
            row = [layer["layer"], str(layer["links"]), unit]
            row += [number(None if each is None else each[name]) for name in ("fim", "max_over_mean", "cv")]
            if compared:
                drawn = compared["layers"][i][unit]["fim"]
                row += [number(drawn[name]) for name in ("mean", "min", "max")]
            rows.append(row)
    print_table(_title(document), columns, rows)
    if compared:
        speed = compared["min_speed"]
        typer.echo(
            f"min speed: {number(compared['plan_min_speed'])} as planned; under {compared['policy']} "
            f"{number(speed['mean'])} ({number(speed['min'])} to {number(speed['max'])}, {compared['seeds']} seeds)\n"
        )


def _title(document: Mapping[str, Any]) -> str:
    flows = document["flows"]
    astray, unknown = (sum(map(test, flows)) for test in (lambda f: f["differs"], is_unknown))
    counts = f"{plural(len(flows), 'flow')}, {astray} not on their planned paths, {unknown} of unknown path"
    if "at" not in document:
        return counts
    window = document["window"]
    counted = "counters of one moment" if window is None else f"counters over {window:.1f} s"
    silent = f"; not read: {', '.join(document['silent'])}" if document["silent"] else ""
    return (
        f"plan {document['epoch']}, mode {document['mode']}, {document['enforcement']}, "
        f"{moment(document['at'])} UTC: {counts}; {counted}{silent}"
    )


def _print_hot(title: str, hot: list[Mapping[str, Any]], flows: Mapping[str, Mapping[str, Any]]) -> None:
    if not hot:
        return
    print_table(
        title,
        ("link", "Gbit/s>", "used>", "flows>", "bytes>", "which"),
        (
            (
                row["link"],
                number(row["gbps"], 1),
                "-" if row["utilisation"] is None else f"{row['utilisation']:.0%}",
                str(len(row["flows"])),
                "-" if row["bytes"] is None else size(row["bytes"]),
                _names(row["flows"], flows),
            )
            for row in hot
        ),
    )


def _names(ids: list[str], flows: Mapping[str, Mapping[str, Any]]) -> str:
    named = ", ".join(_name(flows.get(id_), id_) for id_ in ids[:_COLLIDING])
    return named + (f" and {len(ids) - _COLLIDING} more" if len(ids) > _COLLIDING else "")


def _name(flow: Mapping[str, Any] | None, id_: str) -> str:
    """Return the display name of a flow, like ``gpt3-a/dp0 2->3`` if its ranks are known, else its id."""
    if flow is None or flow["src_rank"] is None or flow["dst_rank"] is None:
        return id_
    return f"{flow['job']}/{flow['collective']} {flow['src_rank']}->{flow['dst_rank']}"


def _print_flows(document: Mapping[str, Any], differs: bool) -> None:
    flows = sorted(document["flows"], key=lambda flow: (not flow["differs"], not is_unknown(flow)))
    if differs:
        flows = [flow for flow in flows if flow["differs"]]
        if not flows:
            typer.echo("no flow is known to be on another path than its planned one")
            return
    shown = flows[:_SHOWN]
    more = f" (the first {_SHOWN} of {len(flows)}; --format json has all)" if len(flows) > _SHOWN else ""
    print_table(
        f"flows{more}",
        ("flow", "from", "to", "planned", "real", "known by", "sure>", "why"),
        (
            (
                flow["id"] + (f" piece {flow['piece']}" if flow["share"] < 1 else ""),
                flow["src"],
                flow["dst"],
                _path(flow["planned"], flow),
                _path(flow["real"], flow),
                flow["how"],
                f"{flow['sure']:.2f}",
                flow["why"],
            )
            for flow in shown
        ),
    )


def _path(links: list[str] | None, flow: Mapping[str, Any]) -> str:
    """Return the links of a path between switches; host links are left out.

    A trace of another tool names no hosts and begins at the leaf, so its first link is not a host link.
    """
    if links is None:
        return "-"
    if "->" not in links[0]:
        return " ".join(links[:2])
    if links[0].startswith(f"{flow['src']}->"):
        links = links[1:]
    return " ".join(links[:-1]) if len(links) > 1 else " ".join(links)
