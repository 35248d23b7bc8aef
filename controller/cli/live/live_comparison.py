"""``fairspine compare --live``: policies for the jobs of a running controller, each by a preview."""

from __future__ import annotations

import json
from collections.abc import Sequence

from controller.cli.connection.client import Client, described
from controller.cli.live.mode import ModeName
from controller.cli.shared.output import Printer, expected_speed, number, plural

_SIDE = ("policy", "mode", "slowest", "expected", "min_speed", "gap", "flows", "unroutable")
_HASHED = "ecmp"
"""The policy that switches carry out by themselves, in the mode of the same name."""


def compare_live(client: Client, policies: Sequence[str], output: Printer) -> None:
    """Print a row for each policy: the plan that the controller would make with it now. Nothing is changed."""
    rows = []
    for policy in policies:
        change = {"mode": ModeName.ECMP} if policy == _HASHED else {"policy": policy, "mode": ModeName.PLANNED}
        answer = client.request("POST", "plans:preview", body=json.dumps(change).encode()).document
        after = described(described(answer, "epoch", "after", "moved_count")["after"], *_SIDE)
        rows.append({"policy": policy, **{name: after[name] for name in _SIDE[2:]}, "moved": answer["moved_count"]})
    if not output.is_table:
        output.document({"policies": rows})
        return
    output.table(
        f"{plural(rows[0]['flows'] if rows else 0, 'flow')}; nothing is changed",
        ("policy", "slowest job>", "planned>", "gap>", "without path>", "moved flows>"),
        (
            (
                row["policy"],
                expected_speed(row["slowest"], row["expected"]),
                number(None if row["policy"] == _HASHED else row["min_speed"]),
                number(None if row["policy"] == _HASHED else row["gap"]),
                str(row["unroutable"]),
                str(row["moved"]),
            )
            for row in rows
        ),
        give_up=("gap>", "planned>"),
    )
