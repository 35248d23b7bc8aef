"""``fairspine hosts``: the agents of hosts, where these carry out plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from controller.cli.connection.client import Client, described, described_rows
from controller.cli.connection.remote import Remote
from controller.cli.connection.watch import Watch
from controller.cli.shared.output import Printer, number, plural

# Members that are read of the API's document (controller.rest.schemas).
_HOST = ("host", "takes_part", "heard_seconds", "epoch", "confirmed", "dead_paths", "lost_probes", "slowest_us")
_COUNTERS = ("paused", "pausing", "dropped", "ECN marks", "CNPs")


def hosts(
    *,
    remote: Remote,
    output: Printer,
    watch: Watch,
) -> None:
    """Show the agents of hosts: which plan each holds, when it was heard, dead paths, and congestion at its NIC.

    The NIC counts since its driver began: pause frames that it has received (paused) and sent (pausing), packets that
    it has dropped, received packets with an ECN mark, and congestion notifications that it has received; - is not
    known. Paced are the flows that the host sends at the rates of the plan. Ports are the source ports by which flows
    take their paths where routers hash: what is known of them, and of how many flows. Where switches carry out plans,
    there are no agents.
    """
    client = remote.client()
    watch.show(lambda: _show(client, output))


def _show(client: Client, output: Printer) -> None:
    answer = described(client.request("GET", "hosts").document, "hosts")
    rows = described_rows(answer["hosts"], *_HOST)
    if not output.is_table:
        output.document(answer)
        return
    if not rows:
        output.line("switches carry out plans, and no host needs an agent", "")
        return
    confirmed, needed = (sum(row[name] and row["takes_part"] for row in rows) for name in ("confirmed", "takes_part"))
    output.table(
        f"{plural(len(rows), 'host')}; {confirmed} of {needed} that send or receive planned flows hold the newest plan",
        (
            *("host", "planned flows", "plan>", "newest", "heard (s)>", "dead paths>", "lost probes>", "slowest (us)>"),
            "paced>",
            "ports",
            *(f"{name}>" for name in _COUNTERS),
        ),
        (_cells(row) for row in rows),
        give_up=(
            *("slowest (us)>", "lost probes>", "CNPs>", "pausing>", "paused>", "dropped>", "ECN marks>", "paced>"),
            *("ports", "heard (s)>"),
        ),
    )
    reasons = Counter(reason for row in rows if (reason := (row.get("pacing") or {}).get("reason")))
    for reason, count in reasons.most_common():
        output.line(f"{plural(count, 'host')} not pacing all flows: {reason}")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(row["host"]),
        "yes" if row["takes_part"] else "no",
        _number(row["epoch"]),
        "yes" if row["confirmed"] else "no",
        number(row["heard_seconds"], 1),
        *(_number(row[name]) for name in ("dead_paths", "lost_probes", "slowest_us")),
        _paced(row.get("pacing")),
        _ports(row.get("ports")),
        *(_number(value) for value in _congestion(row.get("counters") or {})),
    )


def _paced(pacing: Mapping[str, Any] | None) -> str:
    """``12``; ``0 of 12`` where some are not paced; - where it is not known."""
    if pacing is None:
        return "-"
    paced, planned = pacing["paced"], pacing["planned"]
    return str(paced) if paced == planned else f"{paced} of {planned}"


def _ports(ports: Mapping[str, Any] | None) -> str:
    """``active, 12``; ``searching, 3 of 12``; - where ports select no paths."""
    if ports is None:
        return "-"
    known, planned = ports["known"], ports["planned"]
    return f"{ports['state']}, " + (str(known) if known == planned else f"{known} of {planned}")


def _congestion(counters: Mapping[str, Any]) -> tuple[int | None, ...]:
    """Return the values of the columns ``_COUNTERS``; ``None``: not known."""
    paused, pausing = (
        _sum([*(counters.get(f"pause_{way}") or ()), counters.get(f"link_pause_{way}")]) for way in ("received", "sent")
    )
    by_class = _sum(counters.get("dropped") or ())
    # Drops of the port include those of its classes.
    received = by_class if counters.get("received_dropped") is None else counters["received_dropped"]
    dropped = _sum([received, counters.get("sent_dropped")])
    return paused, pausing, dropped, counters.get("ecn_marked"), counters.get("cnp_received")


def _sum(values: Sequence[int | None]) -> int | None:
    """Return the sum of the known values; ``None``: none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
