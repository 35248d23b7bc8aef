"""``fairspine policies``: the routing policies that there are, of this project and of plug-ins."""

from __future__ import annotations

from typing import Any

from controller.cli.shared.output import Printer


def policies(*, output: Printer) -> None:
    """List the routing policies, and the plug-ins that cannot be used.

    Splits: whether a policy may give a flow several paths, and the option without which it does not. Draws: whether
    another seed gives another plan. Switches: whether they can follow its plans.
    """
    from controller.routing import BUILT_IN, POLICIES

    rows: list[dict[str, Any]] = [
        {
            "name": policy.name,
            "description": policy.description,
            "built_in": policy.name in BUILT_IN,
            "splits": policy.splits,
            "split_option": policy.split_option or None,
            "draws": policy.draws,
            "enforceable": policy.enforceable,
        }
        for policy in POLICIES.values()
    ]
    unusable = [{"name": name, "reason": reason} for name, reason in POLICIES.failures().items()]
    if not output.is_table:
        output.document({"policies": rows, "unusable": unusable})
        return
    output.table(
        "",
        ("policy", "splits", "draws", "switches", "method"),
        (
            (
                row["name"] if row["built_in"] else f"{row['name']} (plug-in)",
                row["split_option"] or _yes(row["splits"]),
                _yes(row["draws"]),
                _yes(row["enforceable"]),
                row["description"],
            )
            for row in rows
        ),
        give_up=("draws", "splits", "switches"),
        shorten=("method",),
    )
    for each in unusable:
        output.line(f"{each['name']}: {each['reason']}")


def _yes(value: bool) -> str:
    return "yes" if value else "-"
