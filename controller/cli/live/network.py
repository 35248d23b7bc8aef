"""``fairspine fabric``, ``links`` and ``routes``: the network as a running controller knows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from controller.cli.connection import completion
from controller.cli.connection.client import Client, NoAnswer, described, described_rows
from controller.cli.connection.remote import Remote
from controller.cli.connection.watch import Watch
from controller.cli.shared.command_error import CommandError
from controller.cli.shared.output import Printer, link_state, number, plural, size
from controller.model.choices.protocol import ROCE
from controller.model.errors import shorten

# Members that are read of the API's documents (controller.rest.schemas).
_SWITCH = ("name", "role", "connected")
_HOST = ("name", "leaf", "ip", "up")
_CABLE = ("id", "a", "b", "gbps", "up", "drained")
_LINK = ("id", "gbps", "load_gbps", "up", "drained")
_ROUTE = ("flow", "qp", "qps", "dst", "bytes", "pieces")
_PIECE = ("path", "share", "rate_gbps", "udp_src")

NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME]...",
        help="Only of these switches, cables, links, hosts, NICs, pods or planes (plane2); without any, all.",
        show_default=False,
        autocompletion=completion.links,
    ),
]


def fabric(
    *,
    remote: Remote,
    output: Printer,
    watch: Watch,
) -> None:
    """Show the switches, with their cables and hosts, and what the cabling check found."""
    client = remote.client()
    watch.show(lambda: _show_fabric(client, output))


def _show_fabric(client: Client, output: Printer) -> None:
    answer = _fabric(client)
    if not output.is_table:
        output.document(answer)
        return
    cables, up, unknown, drained, hosts = (Counter[str]() for _ in range(5))
    for cable in answer["links"]:
        ends = (cable["a"], cable["b"])
        cables.update(ends)
        known = cable.get("known", True)
        up.update(ends if cable["up"] and known else ())
        unknown.update(() if known else ends)
        drained.update(ends if cable["drained"] else ())
    hosts.update(str(host["leaf"]) for host in answer["hosts"])
    pods = any(row.get("pod") for row in answer["switches"])
    agg_planes = any(row.get("agg_plane") for row in answer["switches"])
    planes = any(row.get("plane") for row in answer["switches"])
    nics = {host.get("nic") or host["name"] for host in answer["hosts"]}
    there = plural(len(answer["hosts"]), "host")
    if planes:
        there = f"{plural(len(nics), 'NIC')} with {plural(len(answer['hosts']), 'port')}"
    switches, links = plural(len(answer["switches"]), "switch", "switches"), plural(len(answer["links"]), "cable")
    output.table(
        f"{switches}, {links}, {there}, from {answer['source']}",
        (
            *("switch", "role"),
            *(("plane>",) * planes),
            *(("pod",) * pods),
            *(("agg plane>",) * agg_planes),
            *("connected", "cables up>", "drained>", "ports>" if planes else "hosts>"),
        ),
        (
            (
                row["name"],
                row["role"],
                *((str(row.get("plane") or "-"),) * planes),
                *((row.get("pod") or "-",) * pods),
                *((str(row.get("agg_plane") or "-"),) * agg_planes),
                "router" if row.get("kind") == "router" else "yes" if row["connected"] else "no",
                f"{up[row['name']]} of {cables[row['name']]}{_unknown(unknown[row['name']])}",
                str(drained[row["name"]]),
                str(hosts[row["name"]]) if row["role"] == "leaf" else "-",
            )
            for row in answer["switches"]
        ),
        give_up=("role",),
    )
    if planes:
        _print_planes(output, answer)
    for finding in answer["cabling"]["findings"]:
        output.line(f"! {finding['text']}")


def _unknown(count: int) -> str:
    """Return what follows the number of cables that are up: how many may be up or down."""
    return f", {count} unknown" if count else ""


def _print_planes(output: Printer, answer: Mapping[str, Any]) -> None:
    """Print a row for each plane of NICs with several ports."""
    of = {row["name"]: row["plane"] for row in answer["switches"]}
    up, unknown, every, drained, ports, ports_up, away = (Counter[int]() for _ in range(7))
    for row in answer["switches"]:
        away[row["plane"]] += not row["connected"]
    for cable in answer["links"]:
        every[of[cable["a"]]] += 1
        known = cable.get("known", True)
        up[of[cable["a"]]] += cable["up"] and known
        unknown[of[cable["a"]]] += not known
        drained[of[cable["a"]]] += cable["drained"]
    for host in answer["hosts"]:
        ports[of[host["leaf"]]] += 1
        ports_up[of[host["leaf"]]] += host["up"]
    output.table(
        "planes: each NIC has a port in each of them",
        ("plane", "switches away>", "cables up>", "drained>", "ports up>"),
        (
            (
                f"plane{plane}",
                str(away[plane]),
                f"{up[plane]} of {every[plane]}{_unknown(unknown[plane])}",
                str(drained[plane]),
                f"{ports_up[plane]} of {ports[plane]}",
            )
            for plane in sorted({plane for plane in of.values() if plane is not None})
        ),
    )


def links(
    names: NamesArgument = None,
    *,
    remote: Remote,
    output: Printer,
    watch: Watch,
) -> None:
    """Show every directed link with its measured and its planned load, what is in no plan, and its drops and errors."""
    client = remote.client()
    watch.show(lambda: _show_links(client, names, output))


def _show_links(client: Client, names: list[str] | None, output: Printer) -> None:
    answer = described(client.request("GET", "links").document, "links")
    rows = [(row, _names_of(row)) for row in described_rows(answer["links"], *_LINK)]
    wanted = set(names or ())
    unknown = wanted.difference(*(known for _, known in rows))
    if unknown:
        # NICs and pods are known to the fabric only.
        parts = _parts_of(_fabric(client), unknown)
        if missing := sorted(unknown.difference(parts)):
            raise CommandError(f"{client.url}: {shorten(missing[0])} is no link, and no part of the fabric with one")
        wanted = (wanted - unknown).union(*parts.values())
    shown = [row for row, known in rows if not wanted or wanted & known]
    if not output.is_table:
        output.document({**answer, "links": shown})
        return
    planes = any(row.get("plane") for row in shown)
    output.table(
        plural(len(shown), "link"),
        (
            "link",
            *(("plane>",) * planes),
            "Gbit/s>",
            "measured>",
            "planned>",
            "unplanned>",
            "dropped>",
            "errors>",
            "state",
        ),
        (
            (
                str(row["id"]),
                *((str(row.get("plane") or "-"),) * planes),
                number(row["gbps"], 1),
                number(row.get("rate_gbps"), 2),
                number(row["load_gbps"], 2),
                number(row.get("background_gbps"), 2),
                _count(row.get("dropped")),
                _count(row.get("errors")),
                link_state(row),
            )
            for row in shown
        ),
        give_up=("errors>", "dropped>", "Gbit/s>"),
    )


def routes(
    host: Annotated[
        str,
        typer.Argument(
            metavar="HOST",
            help="A host of the fabric; a NIC with several ports, or one of them.",
            show_default=False,
            autocompletion=completion.hosts,
        ),
    ],
    *,
    remote: Remote,
    output: Printer,
    watch: Watch,
) -> None:
    """Show what a host sends: the path, source port and rate of each flow, as its agent is told."""
    client = remote.client()
    watch.show(lambda: _show_routes(client, host, output))


def _show_routes(client: Client, host: str, output: Printer) -> None:
    nic: list[tuple[str, int | None]] = []
    try:
        answers = [_routes_of(client, host)]
    except NoAnswer:
        raise
    except CommandError:
        # The controller tells routes of ports; a NIC with several of them is known to the fabric.
        nic = _nic(_fabric(client), host)
        if not nic:
            raise
        answers = [_routes_of(client, port) for port, _ in nic]
    if not output.is_table:
        output.document({"nic": host, "ports": answers} if nic else answers[0])
        return
    rows = [
        (flow, piece, plane, port)
        for (port, plane), answer in zip(nic or [(host, None)], answers, strict=True)
        for flow in described_rows(answer["flows"], *_ROUTE)
        for piece in described_rows(flow["pieces"], *_PIECE)
    ]
    # The stripes of a connection, which ports of one NIC send, are together.
    order = {flow: i for i, flow in enumerate(dict.fromkeys(str(row[0]["flow"]) for row in rows))}
    rows.sort(key=lambda row: (order[str(row[0]["flow"])], row[0]["qp"]))
    answer = answers[0]
    ports = f" ({len(nic)} ports)" if nic else ""
    others = any("protocol" in flow for flow, *_ in rows)
    output.table(
        f"{host}{ports}: {plural(len(order), 'flow')}; plan {answer['epoch']}, mode {answer['mode']}, "
        f"{answer['enforcement']}",
        (
            *("flow", "QP>"),
            *(("plane>", "from") * bool(nic)),
            *("to", "path", "share>", "source port>", *(("protocol",) * others), "Gbit/s>", "bytes>"),
        ),
        (
            (
                str(flow["flow"]),
                "-" if flow["qps"] == 1 else str(flow["qp"]),
                *((str(plane or "-"), str(port)) if nic else ()),
                str(flow["dst"]),
                piece["path"] or "-",
                f"{piece['share']:.0%}",
                _count(piece["udp_src"]),
                *((_protocol(flow),) * others),
                number(piece["rate_gbps"], 2),
                size(flow["bytes"]),
            )
            for flow, piece, plane, port in rows
        ),
        give_up=("bytes>", "share>", "Gbit/s>", "plane>"),
    )


def _protocol(flow: Mapping[str, Any]) -> str:
    """Return the protocol of a flow with the port that is known: ``tcp to 5000``."""
    known = ((word, flow.get(name)) for word, name in (("from", "src_port"), ("to", "dst_port")))
    ports = (f" {word} {port}" for word, port in known if port is not None)
    return str(flow.get("protocol", ROCE)) + "".join(ports)


def _routes_of(client: Client, host: str) -> dict[str, Any]:
    flows = client.request("GET", "routes", query={"host": host}).document
    return described(flows, "mode", "enforcement", "epoch", "flows")


def _nic(fabric: Mapping[str, Any], name: str) -> list[tuple[str, int | None]]:
    """Return the ports of a NIC with several ports, with the plane of each; empty: no such NIC has this name."""
    plane = {row["name"]: row.get("plane") for row in fabric["switches"]}
    ports = [(str(row["name"]), plane.get(row["leaf"])) for row in fabric["hosts"] if row.get("nic") == name]
    return sorted(ports, key=lambda port: (port[1] or 0, port[0]))


def _parts_of(fabric: Mapping[str, Any], names: Iterable[str]) -> dict[str, set[str]]:
    """Return what the names of NICs and pods stand for: the NIC's ports, or the pod's switches; others are left out."""
    parts: dict[str, set[str]] = {}
    for name in names:
        ports = {port for port, _ in _nic(fabric, name)}
        switches = {str(row["name"]) for row in fabric["switches"] if row.get("pod") == name}
        if ports or switches:
            parts[name] = ports or switches
    return parts


def _fabric(client: Client) -> dict[str, Any]:
    answer = described(client.request("GET", "fabric").document, "source", "switches", "hosts", "links", "cabling")
    for part, members in (("switches", _SWITCH), ("hosts", _HOST), ("links", _CABLE)):
        described_rows(answer[part], *members)
    described_rows(described(answer["cabling"], "findings")["findings"], "text")
    return answer


def _names_of(row: Mapping[str, Any]) -> set[str]:
    """Return the names that stand for a directed link: its id, its cable's, both its ends, and its plane's."""
    link = str(row["id"])
    ends, colon, copy = link.partition(":")
    a, _, b = ends.partition("->")
    plane = {f"plane{row['plane']}"} if row.get("plane") else set()
    return {link, a, b, f"{a}-{b}{colon}{copy}", f"{b}-{a}{colon}{copy}"} | plane


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)
