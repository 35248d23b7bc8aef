"""``fairspine emulate-training``: training scripts of people on an emulated fabric, measured. Needs root."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.connection import completion
from controller.cli.local.emulate import DEFAULT_POLICIES, check_installed
from controller.cli.shared.enforcement_help import ENFORCEMENTS_TEXT
from controller.cli.shared.output import Printer
from controller.config import Settings


def emulate_training(
    fabric: Annotated[Path, typer.Option("--fabric", metavar="FILE", help="The fabric (YAML or JSON).")],
    job: Annotated[
        list[Path],
        typer.Option(
            "--job",
            metavar="FILE",
            help="A job of protocol tcp: on which hosts its ranks run, and what they send in a step; may be given "
            "several times.",
        ),
    ],
    script: Annotated[
        list[str],
        typer.Option(
            "--script",
            metavar="COMMAND",
            help="A training script in Python and its arguments, for all jobs, or one for each. It gets RANK, "
            "WORLD_SIZE, MASTER_ADDR, MASTER_PORT and STEPS in its environment, and prints a JSON object with step, "
            "seconds and loss for each step.",
        ),
    ],
    policies: Annotated[
        str,
        typer.Option(
            "--policies",
            help="Policies, separated by commas; all are compared with the first. ecmp: no job is pushed, and switches "
            "hash each connection by its 5-tuple.",
        ),
    ] = DEFAULT_POLICIES,
    enforcement: Annotated[
        str,
        typer.Option(
            "--enforcement",
            metavar="NAME",
            help=f"How switches follow plans: {ENFORCEMENTS_TEXT}.",
            autocompletion=completion.enforcements,
        ),
    ] = Settings.enforcement,
    launches: Annotated[
        int, typer.Option("--launches", help="Launches under ecmp: each hashes other ports of connections.")
    ] = 3,
    steps: Annotated[int, typer.Option("--steps", help="Steps that each job takes in a launch.")] = 12,
    link_mbps: Annotated[float, typer.Option("--link-mbps", help="Rate of the fastest link.")] = 20.0,
    learn: Annotated[
        str | None,
        typer.Option(
            "--learn",
            metavar="FEEDER",
            help="Launch once more with no job pushed: the controller learns jobs from what hosts say of their "
            "connections (host), and plans them while they train; --steps are then those under the plan.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for picture, numbers and logs.")] = Path(
        "out"
    ),
    name: Annotated[str, typer.Option("--name", help="Name of the files NAME.png and NAME.json.")] = "training",
    expect_faster: Annotated[
        bool, typer.Option("--expect-faster", help="Fail if a job is not faster than under the first policy.")
    ] = False,
    *,
    output: Printer,
) -> None:
    """Train with your own scripts on an emulated fabric, and measure the steps.

    The command starts the fabric on Mininet and Open vSwitch (a fabric of routers on Linux routers, with an agent on
    each host) and the controller, runs each rank of each job on its host, and measures steps and links.
    """
    check_installed()
    from emulation.training.training_command import run_isolated
    from emulation.training.training_request import TrainingRequest

    request = TrainingRequest(
        fabric=fabric,
        jobs=tuple(job),
        scripts=tuple(script),
        policies=tuple(part.strip() for part in policies.split(",")),
        enforcement=enforcement,
        launches=launches,
        steps=steps,
        link_mbps=link_mbps,
        learn=learn or "",
        out=out,
        name=name,
        expect_faster=expect_faster,
    )
    sys.exit(run_isolated(request, "json" if not output.is_table else "table"))
