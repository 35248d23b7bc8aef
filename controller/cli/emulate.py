"""``fairspine emulate``: jobs under several policies on an emulated fabric, measured on packets. Needs root."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.failure import Failure
from controller.cli.output import Format, FormatOption
from controller.cli.planning import FabricOption, JobOption
from controller.config import Settings


def emulate(
    fabric: FabricOption,
    job: JobOption,
    policies: Annotated[
        str, typer.Option("--policies", help="Policies with commas between; the others are compared with the first.")
    ] = f"ecmp,{Settings.policy}",
    mode: Annotated[str, typer.Option("--mode", help="How the switches enforce a plan.")] = "per_flow",
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31, help="Seed of the first draw.")] = 1,
    draws: Annotated[int, typer.Option("--draws", help="Draws of each policy that leaves it to chance.")] = 3,
    seconds: Annotated[
        float, typer.Option("--seconds", help="About how long the longest job takes if it is alone on the fabric.")
    ] = 5.0,
    link_mbps: Annotated[
        float | None,
        typer.Option("--link-mbps", help="Rate of the fastest link.  [default: what two cores carry]"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where picture, numbers and logs go.")] = Path(
        "out"
    ),
    name: Annotated[str, typer.Option("--name", help="NAME.png and NAME.json are written.")] = "emulate",
    expect_faster: Annotated[
        bool, typer.Option("--expect-faster", help="Fail unless every job is faster than under the first policy.")
    ] = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Run jobs on packets under several policies, and measure.

    Brings up the fabric on Mininet and Open vSwitch, with links a thousand times slower and jobs of fewer bytes, runs
    the controller, pushes the jobs, and measures their collectives. Exits 1 if a result is wrong, or if a flow was
    counted off its planned path.
    """
    try:
        from emulation.experiments.command import run_isolated
        from emulation.experiments.request import Request
    except ModuleNotFoundError as error:
        raise Failure(f"{error.name} is not installed: pip install 'fairspine[emulation]' (make setup does)") from None

    request = Request(
        fabric=fabric,
        jobs=tuple(job),
        policies=tuple(part.strip() for part in policies.split(",")),
        mode=mode,
        seed=seed,
        draws=draws,
        seconds=seconds,
        link_mbps=link_mbps,
        out=out,
        name=name,
        expect_faster=expect_faster,
    )
    sys.exit(run_isolated(request, as_json=format is Format.JSON))
