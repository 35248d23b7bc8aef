"""``fairspine circuits``: have patch panels that speak OpenFlow set the circuits of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli.shared.command_error import CommandError
from controller.cli.shared.output import Printer, plural
from controller.model.errors import InputError


def circuits(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="File of fairspine topology --out.")],
    panel: Annotated[
        list[str],
        typer.Option(
            "--panel",
            metavar="[SWITCH=]ADDRESS",
            help="Address of an optical switch of the plan as ovs-ofctl has it (tcp:HOST:PORT, unix:PATH). Repeatable.",
        ),
    ],
    stage: Annotated[
        int | None,
        typer.Option("--stage", min=1, help="Carry out only this stage of a plan with stages.", show_default=False),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; fail if a circuit is wrong.")] = False,
    wait: Annotated[
        float, typer.Option("--wait", min=0.0, max=3600.0, help="Seconds to wait for packets on new circuits.")
    ] = 10.0,
    *,
    output: Printer,
) -> None:
    """Set the circuits of a plan on patch panels, read them back, repair them, and verify each with a discovery packet.

    Exits with 1 if a circuit carries no packets.
    """
    from controller.circuits.southbound.carry_out import carry_out, look_at, parse_step
    from controller.circuits.southbound.panel import Panel
    from controller.model.files.fabric_file import read_document

    step = parse_step(read_document(plan), stage, source=str(plan))
    panels = [Panel(name, target) for name, target in _targets(panel, step.switches).items()]
    act = look_at if check else carry_out
    results = [(each.name, act(each, step, wait)) for each in panels]
    rows: list[dict[str, Any]] = [
        {
            "switch": name,
            "removed": len(result.change.removed),
            "added": len(result.change.added),
            "right": result.right,
            "faults": [
                {"in_port": each.in_port, "out_port": each.out_port, "reason": reason}
                for each, reason in sorted(result.faults.items())
            ],
        }
        for name, result in results
    ]
    if not output.is_table:
        output.document({"panels": rows})
    else:
        columns = ("switch", "removed", "added", "right")
        output.table(
            "circuits",
            ("switch", "removed>", "set>", "carry packets>", "wrong>"),
            ((*(str(row[name]) for name in columns), str(len(row["faults"]))) for row in rows),
        )
        for row in rows:
            for fault in row["faults"]:
                output.line(f"{row['switch']}: {fault['in_port']} -> {fault['out_port']}: {fault['reason']}")
    wrong = sum(len(row["faults"]) for row in rows)
    if wrong:
        raise CommandError(f"{plural(wrong, 'circuit')} wrong")


def _targets(given: Sequence[str], switches: Sequence[str]) -> dict[str, str]:
    """Return the address of each switch.

    Raises:
        InputError: a switch of the plan has no address or two, or there is none of this name.
    """
    targets: dict[str, str] = {}
    for value in given:
        name, equals, target = value.partition("=")
        if not equals:
            if len(switches) != 1:
                raise InputError(
                    f"the plan has the switches {', '.join(switches)}: write SWITCH=ADDRESS for each",
                    field="--panel",
                    value=value,
                )
            name, target = switches[0], value
        if name not in switches:
            raise InputError(f"the plan has the switches {', '.join(switches)}", field="--panel", value=name)
        if name in targets:
            raise InputError("a switch before has this name", field="--panel", value=name)
        if ":" not in target:
            raise InputError("must be tcp:HOST:PORT, ssl:HOST:PORT or unix:PATH", field="--panel", value=target)
        targets[name] = target
    for name in switches:
        if name not in targets:
            raise InputError(f"{name} has no address", field="--panel")
    return targets
