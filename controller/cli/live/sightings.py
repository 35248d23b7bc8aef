"""``fairspine sightings``: tells a running controller what jobs send.

From the records of NCCL Inspector, or from what the kernel counts of TCP connections (``tcp_sightings``).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from controller.cli.connection.client import Client, NoAnswer, described
from controller.cli.connection.remote import Remote
from controller.cli.shared.output import plural
from controller.model.errors import InputError

if TYPE_CHECKING:
    from controller.workload.importers.nccl.feeder import InspectorFeeder
    from controller.workload.importers.nccl.tallies import QpTally

OLDEST = 50.0
"""Seconds: older operations are left out, as the controller refuses sightings that are a minute from its time."""

_WAITS = "operations wait for records of the other ranks of their communicators"

FILES_SECONDS = 1.0

MOST = 10_000
"""Sightings of one request, which may name as many QPs."""


def sightings(
    inspector: Annotated[
        list[Path] | None,
        typer.Option(
            "--inspector",
            metavar="PATH",
            help="Folder of NCCL Inspector (NCCL_INSPECTOR_DUMP_DIR), or one of its files; may be given several times. "
            "The records of all ranks are needed.",
            show_default=False,
        ),
    ] = None,
    tcp: Annotated[
        bool,
        typer.Option(
            "--tcp",
            help="Instead: what TCP connections of this host to others of the fabric send, as Linux counts it, until "
            "Ctrl-C. To be run on each host.",
        ),
    ] = False,
    nccl_log: Annotated[
        list[Path] | None,
        typer.Option(
            "--nccl-log",
            metavar="FILE",
            help="Log of NCCL (NCCL_DEBUG=INFO, subsystems INIT,GRAPH,NET), which has rings, trees and NICs; may be "
            "given several times.  [default: one ring in the order of ranks]",
            show_default=False,
        ),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            "--hosts",
            metavar="HOSTS",
            help="Hosts of the fabric by rank, separated by commas, or a file of them.",
            show_default=False,
        ),
    ] = None,
    inventory: Annotated[
        Path | None,
        typer.Option(
            "--inventory", metavar="FILE", help="Mapping of servers and NICs to hosts (YAML, JSON or CSV), instead."
        ),
    ] = None,
    fabric: Annotated[
        Path | None,
        typer.Option("--fabric", metavar="FILE", help="A fabric whose servers have the names in the records, instead."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with new records, until Ctrl-C.")] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            "--interval",
            metavar="SECONDS",
            min=0.05,
            max=30,
            help="Seconds between two looks at the files, or at the counters.  [default: 1, with --tcp 0.1]",
            show_default=False,
        ),
    ] = None,
    as_if_now: Annotated[
        bool,
        typer.Option(
            "--as-if-now", help="Move the times of all records so that the last one is now: of a run that has ended."
        ),
    ] = False,
    *,
    remote: Remote,
) -> None:
    """Tell the controller what jobs send, from the files of NCCL Inspector or from TCP connections.

    Each record says that a rank has sent the bytes of an operation within its time; rings and trees say to whom. The
    records do not tell UDP source ports, so learned jobs have unknown ports.
    """
    given = {
        "--nccl-log": nccl_log,
        "--hosts": hosts,
        "--inventory": inventory,
        "--fabric": fabric,
        "--follow": follow,
        "--as-if-now": as_if_now,
    }
    if tcp:
        other = next((name for name, value in ({"--inspector": inspector} | given).items() if value), None)
        if other is not None:
            raise InputError("cannot be used with --tcp", field=other)
        _follow_tcp(remote.client(), interval)
        return
    if not inspector:
        raise InputError("is needed, or --tcp", field="--inspector")
    if follow and as_if_now:
        raise InputError("cannot be used with --follow", field="--as-if-now")
    feeder = _feeder(inspector, nccl_log or [], hosts, inventory, fabric)
    client = remote.client()
    if not follow:
        _once(client, feeder, as_if_now=as_if_now)
        return
    try:
        _follow(client, feeder, interval or FILES_SECONDS)
    except KeyboardInterrupt:
        return


def _follow_tcp(client: Client, interval: float | None) -> None:
    from controller.cli.live.tcp_sightings import READ_SECONDS, follow_tcp

    try:
        follow_tcp(client, interval or READ_SECONDS)
    except KeyboardInterrupt:
        return


def _feeder(
    paths: Sequence[Path], logs: Sequence[Path], hosts: str | None, inventory: Path | None, fabric: Path | None
) -> InspectorFeeder:
    from controller.model.files.fabric_file import load_fabric
    from controller.workload.importers.base import ImportRequest
    from controller.workload.importers.inventory import load_inventory
    from controller.workload.importers.nccl.feeder import InspectorFeeder
    from controller.workload.importers.streams import open_sources

    for path in paths:
        if not path.exists():
            raise InputError("no such file or folder", field="--inspector", value=str(path))
    if logs:
        open_sources(logs)  # tells what is wrong with one before any record is read
    known = None if fabric is None else load_fabric(fabric)
    request = ImportRequest(fabric=known, inventory={} if inventory is None else load_inventory(inventory, known))
    return InspectorFeeder(paths, lambda: open_sources(logs) if logs else (), request, _hosts(hosts))


def _hosts(given: str | None) -> list[str] | None:
    """Return the hosts of a list or a file."""
    from controller.cli.local.importing import placement_of

    if given is None:
        return None
    if Path(given).exists():
        listed = placement_of(given)
        assert listed is not None
        return list(listed)
    hosts = [part.strip() for part in given.split(",")]
    for i, host in enumerate(hosts):
        if not host or host in hosts[:i]:
            raise InputError("is listed twice" if host else "has no name", field=f"--hosts: host {i}", value=host)
    return hosts


def _once(client: Client, feeder: InspectorFeeder, *, as_if_now: bool) -> None:
    tallies = feeder.step(0.0 if as_if_now else time.time() - OLDEST)
    if feeder.waiting:
        raise InputError(
            f"{plural(feeder.waiting, 'operation')} of communicators of which some rank has no record",
            field="--inspector",
        )
    if not tallies and feeder.left_out:
        raise InputError(
            f"every record is older than {OLDEST:g} s, and the controller takes none of them (--as-if-now moves them)",
            field="--inspector",
        )
    if not tallies:
        raise InputError("the files have no record of an operation that crosses the network", field="--inspector")
    moved = time.time() - tallies[-1].at if as_if_now else 0.0
    known = 0
    recent = _recent([tally._replace(at=tally.at + moved) for tally in tallies])
    for begin in range(0, len(recent), MOST):
        known = _post(client, recent[begin : begin + MOST])
    for note in feeder.notes:
        typer.echo(f"note: {note}", err=True)
    if feeder.left_out:
        text = f"{plural(feeder.left_out, 'operation')} older than {OLDEST:g} s left out (--as-if-now moves them)"
        typer.echo(f"note: {text}", err=True)
    elif len(recent) < len(tallies):
        text = f"{plural(len(tallies) - len(recent), 'sighting')} more than {OLDEST:g} s before the last one left out"
        typer.echo(f"note: {text}", err=True)
    typer.echo(f"{plural(len(recent), 'sighting')} posted; the controller knows {plural(known, 'QP')}")


def _follow(client: Client, feeder: InspectorFeeder, interval: float) -> None:
    shown: set[str] = set()
    is_away = False
    while True:
        # What is left out while the controller is away costs nothing: tallies add up.
        recent = _recent(feeder.step(time.time() - OLDEST))
        for note in (*feeder.notes, *([_WAITS] * (feeder.waiting > 0))):
            if note not in shown:
                shown.add(note)
                typer.echo(f"note: {note}", err=True)
        try:
            for begin in range(0, len(recent), MOST):
                _post(client, recent[begin : begin + MOST])
            if recent:
                is_away = False
        except NoAnswer as failure:
            if not is_away:
                typer.echo(f"fairspine: {failure}", err=True)
            is_away = True
        time.sleep(interval)


def _recent(tallies: list[QpTally]) -> list[QpTally]:
    oldest = time.time() - OLDEST
    return [tally for tally in tallies if tally.at >= oldest]


def _post(client: Client, tallies: Sequence[QpTally]) -> int:
    """Post tallies; return the number of QPs that the controller knows."""
    from controller.workload.importers.nccl.tallies import sightings_of

    answer = client.request("POST", "sightings", body=orjson.dumps(sightings_of(tallies))).document
    return int(described(answer, "qps")["qps"])
