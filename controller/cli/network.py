"""``fairspine fabric``, ``links`` and ``routes``: the network as a running controller knows it."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer

from controller.cli import completion
from controller.cli.client import Client, described, described_rows
from controller.cli.command_error import CommandError
from controller.cli.output import Printer, number, plural, size
from controller.cli.remote import Remote
from controller.cli.watch import Watch
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
        help="Only of these switches, cables, links or hosts; without any, all.",
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
    cables, up, drained, hosts = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for cable in answer["links"]:
        ends = (cable["a"], cable["b"])
        cables.update(ends)
        up.update(ends if cable["up"] else ())
        drained.update(ends if cable["drained"] else ())
    hosts.update(str(host["leaf"]) for host in answer["hosts"])
    pods = any(row.get("pod") for row in answer["switches"])
    planes = any(row.get("plane") for row in answer["switches"])
    switches, links = plural(len(answer["switches"]), "switch", "switches"), plural(len(answer["links"]), "cable")
    output.table(
        f"{switches}, {links}, {plural(len(answer['hosts']), 'host')}, from {answer['source']}",
        ("switch", "role", *(("pod",) * pods), *(("plane",) * planes), "connected", "cables up>", "drained>", "hosts>"),
        (
            (
                row["name"],
                row["role"],
                *((row["pod"] or "-",) * pods),
                *((str(row["plane"] or "-"),) * planes),
                "yes" if row["connected"] else "no",
                f"{up[row['name']]} of {cables[row['name']]}",
                str(drained[row["name"]]),
                str(hosts[row["name"]]) if row["role"] == "leaf" else "-",
            )
            for row in answer["switches"]
        ),
        give_up=("role",),
    )
    for finding in answer["cabling"]["findings"]:
        output.line(f"! {finding['text']}")


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
    rows = [(row, _names_of(str(row["id"]))) for row in described_rows(answer["links"], *_LINK)]
    wanted = set(names or ())
    if unknown := sorted(wanted.difference(*(known for _, known in rows))):
        raise CommandError(f"{client.url}: {shorten(unknown[0])} is no link, and no switch, cable or host of one")
    shown = [row for row, known in rows if not wanted or wanted & known]
    if not output.is_table:
        output.document({**answer, "links": shown})
        return
    output.table(
        plural(len(shown), "link"),
        ("link", "Gbit/s>", "measured>", "planned>", "unplanned>", "dropped>", "errors>", "state"),
        (
            (
                str(row["id"]),
                number(row["gbps"], 1),
                number(row.get("rate_gbps"), 2),
                number(row["load_gbps"], 2),
                number(row.get("background_gbps"), 2),
                _count(row.get("dropped")),
                _count(row.get("errors")),
                "failed" if not row["up"] else "drained" if row["drained"] else "up",
            )
            for row in shown
        ),
        give_up=("errors>", "dropped>", "Gbit/s>"),
    )


def routes(
    host: Annotated[
        str,
        typer.Argument(
            metavar="HOST", help="A host of the fabric.", show_default=False, autocompletion=completion.hosts
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
    told = client.request("GET", "routes", query={"host": host}).document
    answer = described(told, "mode", "enforcement", "epoch", "flows")
    flows = described_rows(answer["flows"], *_ROUTE)
    rows = [(flow, piece) for flow in flows for piece in described_rows(flow["pieces"], *_PIECE)]
    if not output.is_table:
        output.document(answer)
        return
    count = plural(len({row["flow"] for row in flows}), "flow")
    output.table(
        f"{host}: {count}; plan {answer['epoch']}, mode {answer['mode']}, {answer['enforcement']}",
        ("flow", "QP>", "to", "path", "share>", "source port>", "Gbit/s>", "bytes>"),
        (
            (
                str(flow["flow"]),
                "-" if flow["qps"] == 1 else str(flow["qp"]),
                str(flow["dst"]),
                piece["path"] or "-",
                f"{piece['share']:.0%}",
                _count(piece["udp_src"]),
                number(piece["rate_gbps"], 2),
                size(flow["bytes"]),
            )
            for flow, piece in rows
        ),
        give_up=("bytes>", "share>", "Gbit/s>"),
    )


def _fabric(client: Client) -> dict[str, Any]:
    answer = described(client.request("GET", "fabric").document, "source", "switches", "hosts", "links", "cabling")
    for part, members in (("switches", _SWITCH), ("hosts", _HOST), ("links", _CABLE)):
        described_rows(answer[part], *members)
    described_rows(described(answer["cabling"], "findings")["findings"], "text")
    return answer


def _names_of(link: str) -> set[str]:
    """Return the names that stand for a directed link: its id, its cable's, and both its ends."""
    ends, colon, copy = link.partition(":")
    a, _, b = ends.partition("->")
    return {link, a, b, f"{a}-{b}{colon}{copy}", f"{b}-{a}{colon}{copy}"}


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)
