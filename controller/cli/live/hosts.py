"""``fairspine hosts``: the agents of hosts, where these carry out plans."""

from __future__ import annotations

from typing import Any

from controller.cli.connection.client import Client, described, described_rows
from controller.cli.connection.remote import Remote
from controller.cli.connection.watch import Watch
from controller.cli.shared.output import Printer, number, plural

# Members that are read of the API's document (controller.rest.schemas).
_HOST = ("host", "takes_part", "heard_seconds", "epoch", "confirmed", "dead_paths", "lost_probes", "slowest_us")


def hosts(
    *,
    remote: Remote,
    output: Printer,
    watch: Watch,
) -> None:
    """Show the agents of hosts: which plan each host holds, when its agent was heard, and dead paths.

    Where switches carry out plans, there are none.
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
        ("host", "planned flows", "plan>", "newest", "heard (s)>", "dead paths>", "lost probes>", "slowest (us)>"),
        (_cells(row) for row in rows),
        give_up=("slowest (us)>", "lost probes>"),
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(row["host"]),
        "yes" if row["takes_part"] else "no",
        _number(row["epoch"]),
        "yes" if row["confirmed"] else "no",
        number(row["heard_seconds"], 1),
        *(_number(row[name]) for name in ("dead_paths", "lost_probes", "slowest_us")),
    )


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
