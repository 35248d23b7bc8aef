"""Tables of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.cli.shared.output import Printer, moment, number, plural, screen, size
from controller.telemetry.trace_summary import is_unknown, is_without_path

_FEWEST_FLOWS = 5  # in the table, on the smallest screen; those off their planned paths come first
_FEWEST_HOT = 3  # hot links in a table, on the smallest screen
_TABLE_LINES = 7  # lines of a table beside its rows: title, head, what is not shown
_MOST_PLANE_ROWS = 8  # rows of the table by plane; beyond, a screen shows the most uneven planes
_COLLIDING = 6  # largest number of flows that are named for a hot link


def print_trace(output: Printer, document: Mapping[str, Any], differs: bool) -> None:
    """Print the imbalance of layers, the hot links and the flows of a trace.

    Args:
        output: where and how to print.
        document: ``controller.rest.schemas.TraceBody`` or ``TraceDocument``.
        differs: list only flows that are not on their planned paths.
    """
    _print_layers(output, document)
    _print_planes(output, document)
    flows = {flow["id"]: flow for flow in document["flows"]}
    tables = [("hot links: busy for longer than the mean of their layer, with several flows", document["hot"])]
    if compared := document.get("compare"):
        worst = f"hot links under {compared['policy']} with the worst of {compared['seeds']} seeds"
        tables.append((worst, compared["hot"]))
    planes = min(len(document.get("planes") or ()), _MOST_PLANE_ROWS)
    room = screen().lines - 2 * len(document["layers"]) - _TABLE_LINES - (planes + _TABLE_LINES if planes else 0)
    for title, hot in tables:
        most = len(hot) if output.wide else min(len(hot), max(_FEWEST_HOT, room // 4))
        _print_hot(output, title, hot[:most], flows)
        if most < len(hot):
            output.line(f"and {plural(len(hot) - most, 'link')} more (--wide or --format json)", "dim")
        room -= (most + _TABLE_LINES) if hot else 0
    _print_flows(output, document, differs, max(_FEWEST_FLOWS, room - _TABLE_LINES - 1))


def _print_layers(output: Printer, document: Mapping[str, Any]) -> None:
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
    output.table(_title(document), columns, rows, give_up=("from>", "to>", "CV>", "links>"))
    if compared:
        speed = compared["min_speed"]
        output.line(
            f"min speed: {number(compared['plan_min_speed'])} as planned; under {compared['policy']} "
            f"{number(speed['mean'])} ({number(speed['min'])} to {number(speed['max'])}, {compared['seeds']} seeds)"
        )


def _print_planes(output: Printer, document: Mapping[str, Any]) -> None:
    """Print the imbalance of each plane of NICs; with many planes on a screen, of the most uneven one of each layer."""
    rows = list(enumerate(document.get("planes") or ()))
    if not rows:
        return
    compared = document.get("compare")
    title = "by plane"
    if len(rows) > _MOST_PLANE_ROWS and not output.wide:
        title = "the most uneven plane of each layer (--wide: all)"
        worst: dict[str, tuple[int, Mapping[str, Any]]] = {}
        for i, row in rows:
            if row["layer"] not in worst or _unevenness(row) > _unevenness(worst[row["layer"]][1]):
                worst[row["layer"]] = i, row
        rows = list(worst.values())

    def cells(i: int, row: Mapping[str, Any]) -> list[str]:
        fim = [number(None if row[unit] is None else row[unit]["fim"]) for unit in ("flows", "bytes")]
        most = number(None if row["bytes"] is None else row["bytes"]["max_over_mean"])
        drawn = [number(compared["planes"][i]["bytes"]["fim"]["mean"])] if compared else []
        return [str(row["plane"]), row["layer"], str(row["links"]), *fim, most, *drawn]

    columns = ["plane>", "layer", "links>", "FIM, flows>", "FIM, bytes>", "max / mean, bytes>"]
    columns += [f"FIM, {compared['policy']}>"] if compared else []
    output.table(title, columns, (cells(i, row) for i, row in rows), give_up=("links>", "FIM, flows>"))


def _unevenness(row: Mapping[str, Any]) -> float:
    return -1.0 if row["flows"] is None else float(row["flows"]["fim"])


def _title(document: Mapping[str, Any]) -> str:
    flows = document["flows"]
    astray, unknown = (sum(map(test, flows)) for test in (lambda f: f["differs"], is_unknown))
    counts = f"{plural(len(flows), 'flow')}, {astray} not on their planned paths, {unknown} of unknown path"
    if pathless := sum(map(is_without_path, flows)):
        counts += f", {pathless} without a path"
    if "at" not in document:
        return counts
    window = document["window"]
    counted = "counters of one moment" if window is None else f"counters over {window:.1f} s"
    silent = f"; not read: {', '.join(document['silent'])}" if document["silent"] else ""
    return (
        f"plan {document['epoch']}, mode {document['mode']}, {document['enforcement']}, "
        f"{moment(document['at'])} UTC: {counts}; {counted}{silent}"
    )


def _print_hot(
    output: Printer, title: str, hot: list[Mapping[str, Any]], flows: Mapping[str, Mapping[str, Any]]
) -> None:
    if not hot:
        return
    output.table(
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
        give_up=("Gbit/s>", "used>", "bytes>"),
        shorten=("which",),
    )


def _names(ids: list[str], flows: Mapping[str, Mapping[str, Any]]) -> str:
    named = ", ".join(_name(flows.get(id_), id_) for id_ in ids[:_COLLIDING])
    return named + (f" and {len(ids) - _COLLIDING} more" if len(ids) > _COLLIDING else "")


def _name(flow: Mapping[str, Any] | None, id_: str) -> str:
    """Return the display name of a flow, like ``gpt3-a/dp0 2->3`` if its ranks are known, else its id."""
    if flow is None or flow["src_rank"] is None or flow["dst_rank"] is None:
        return id_
    return f"{flow['job']}/{flow['collective']} {flow['src_rank']}->{flow['dst_rank']}"


def _print_flows(output: Printer, document: Mapping[str, Any], differs: bool, most: int) -> None:
    def is_off(flow: Mapping[str, Any]) -> bool:
        return bool(flow["differs"]) or is_without_path(flow)

    flows = sorted(document["flows"], key=lambda flow: (not is_off(flow), not is_unknown(flow)))
    if differs:
        flows = list(filter(is_off, flows))
        if not flows:
            output.line("all flows with known paths are on their planned paths")
            return
    shown = flows if output.wide else flows[:most]
    more = f" (the first {most} of {len(flows)}; --wide or --format json)" if len(flows) > len(shown) else ""
    planes = any(flow.get("plane") is not None for flow in flows)
    carried = any(flow.get("segments") is not None for flow in flows)
    output.table(
        f"flows{more}",
        (
            "flow",
            *(("plane>",) * planes),
            "from",
            "to",
            "planned",
            *(("segment ids",) * carried),
            "real",
            "known by",
            "sure>",
            "why",
        ),
        (
            (
                flow["id"] + (f" piece {flow['piece']}" if flow["share"] < 1 else ""),
                *((str(flow.get("plane") or "-"),) * planes),
                flow["src"],
                flow["dst"],
                _path(flow["planned"], flow),
                *((_segment_ids(flow.get("segments"), wide=output.wide),) * carried),
                "as planned"
                if flow["real"] is not None and flow["real"] == flow["planned"] and not output.wide
                else _path(flow["real"], flow),
                flow["how"],
                f"{flow['sure']:.2f}",
                flow["why"],
            )
            for flow in shown
        ),
        give_up=("sure>", "from", "to", "known by"),
        shorten=("why",),
    )


def _segment_ids(segments: Mapping[str, Any] | None, *, wide: bool) -> str:
    """Return the ids that packets carry with the nodes that consume them; on wide output also the whole address."""
    if segments is None:
        return "-"
    ids = " ".join(f"{each['id']}@{each['node']}" for each in segments["ids"])
    return f"{segments['carrier']} = {ids}" if wide else ids


def _path(links: list[str] | None, flow: Mapping[str, Any]) -> str:
    """Return the links of a path between switches; host links are left out.

    A trace of another tool names no hosts and begins at the leaf, so its first link is not a host link.
    """
    if links is None:
        return "-"
    if "->" not in links[0]:
        # The last hop of a whole path, which has an odd number of them, leads to the host.
        return _chain(links[: max(1, len(links) // 2 * 2)])
    if links[0].startswith(f"{flow['src']}->"):
        links = links[1:]
    return _chain(links[:-1] if len(links) > 1 else links)


def _chain(links: list[str]) -> str:
    """Return consecutive links as one path: ``leaf1->spine2:2`` and ``spine2->leaf3`` as ``leaf1->spine2:2->leaf3``."""
    if "->" not in links[0]:
        return " ".join(links)
    return "->".join([links[0], *(link.partition("->")[2] for link in links[1:])])
