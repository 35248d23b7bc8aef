"""``fairspine plan --live``: the plan of a running controller."""

from __future__ import annotations

from collections import Counter
from typing import Any

from controller.cli.connection.client import Client, described, described_rows, not_understood
from controller.cli.live.mode import ModeName, meaning
from controller.cli.shared.command_error import CommandError
from controller.cli.shared.output import COLLECTIVE, Printer, plural, seconds
from controller.cli.shared.plan_table import print_plan

_PLAN = (
    *("policy", "seconds", "min_speed", "min_level", "bound_split", "bound_single", "gap", "unroutable"),
    *("collectives", "flows", "links"),
)


def show_live_plan(client: Client, output: Printer) -> None:
    """Print the newest plan and whether the switches enforce it.

    The JSON is that of ``fairspine plan``, so that ``--previous`` takes it, with ``mode``, ``computed`` and ``active``.

    Raises:
        CommandError: the controller does not answer, or some flow has no live path.
    """
    document = described(client.request("GET", "plan").document, "mode", "computed", "active", "plan")
    plan = _checked(document["plan"])
    if not output.is_table:
        about = {name: value for name, value in document.items() if name != "plan"}
        output.document({**about, **plan})
    else:
        flows = Counter((flow["job"], flow["collective"]) for flow in plan["flows"])
        print_plan(
            output,
            _title(document),
            plan,
            [flows[row["job"], row["name"]] for row in plan["collectives"]],
            _cables(client, plan["links"]),
        )
    if plan["unroutable"]:
        raise CommandError(
            f"{len(plan['unroutable'])} of {len(plan['flows'])} flows have no live path, "
            f"the first is {plan['unroutable'][0]}"
        )


def _checked(plan: Any) -> dict[str, Any]:
    described(plan, *_PLAN)
    described_rows(plan["collectives"], *COLLECTIVE)
    described_rows(plan["flows"], "job", "collective", "paths")
    described_rows(plan["links"], "id", "gbps", "load_gbps")
    if not isinstance(plan["unroutable"], list):
        raise not_understood(plan["unroutable"])
    checked: dict[str, Any] = plan
    return checked


def _title(document: dict[str, Any]) -> str:
    plan, active = document["plan"], document["active"]
    epoch = described(document["computed"], "epoch")["epoch"]
    enforced = active is not None and described(active, "epoch")["epoch"] == epoch
    state = "active on every switch" if enforced else "not active on every switch yet"
    if document["mode"] != ModeName.PLANNED:
        state = f"mode {document['mode']}: {meaning(document)}"
    pieces = sum(len(flow["paths"]) for flow in plan["flows"])
    return (
        f"plan {epoch}, {plan['policy']}: {plural(len(plan['flows']), 'flow')} in {plural(pieces, 'piece')} placed in "
        f"{seconds(plan['seconds'])}; {state}"
    )


def _cables(client: Client, links: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the links between switches."""
    fabric = described(client.request("GET", "fabric").document, "hosts")
    hosts = {row["name"] for row in described_rows(fabric["hosts"], "name")}
    return [row for row in links if hosts.isdisjoint(str(row["id"]).partition(":")[0].split("->"))]
