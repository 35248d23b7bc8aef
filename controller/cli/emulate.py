"""``fairspine emulate``: jobs under several policies on an emulated fabric, measured on packets. Needs root."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.command_error import CommandError
from controller.cli.output import FormatOption, OutputFormat
from controller.config import Settings
from controller.model.errors import InputError
from controller.model.qp_mode import MOST_QPS

NEEDED = ("mininet", "scapy", "ryu", "eventlet")
"""Packages that the lab and its controller import, and a plain installation does not bring."""

DEFAULT_POLICIES = f"ecmp,{Settings.policy}"


def emulate(
    fabric: Annotated[
        Path | None, typer.Option("--fabric", metavar="FILE", help="The fabric (YAML or JSON).", show_default=False)
    ] = None,
    job: Annotated[
        list[Path] | None,
        typer.Option("--job", metavar="FILE", help="A job; may be given several times.", show_default=False),
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(
            "--scenario",
            metavar="FILE",
            help="A scenario of 'fairspine simulate' in place of fabric and jobs: measured beside simulated.",
            show_default=False,
        ),
    ] = None,
    policies: Annotated[
        str | None,
        typer.Option(
            "--policies",
            help="Policies with commas between; the others are compared with the first.  "
            f"[default: {DEFAULT_POLICIES}, or the scenario's]",
            show_default=False,
        ),
    ] = None,
    mode: Annotated[str, typer.Option("--mode", help="How the switches enforce a plan.")] = "per_flow",
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, max=2**31, help="Seed of the first draw.  [default: 1]", show_default=False),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            "--draws", help="Draws of each policy that leaves it to chance.  [default: 3]", show_default=False
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", help="About how long the longest job takes if it is alone on the fabric.")
    ] = 5.0,
    qps: Annotated[
        int,
        typer.Option(
            "--qps",
            min=1,
            max=MOST_QPS,
            help="QPs of each connection of jobs that do not say: each message is split over them.",
        ),
    ] = 1,
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
    format: FormatOption = OutputFormat.TABLE,
) -> None:
    """Run jobs on packets under several policies, and measure.

    Brings up the fabric on Mininet and Open vSwitch, with links a thousand times slower and jobs of fewer bytes, runs
    the controller, pushes the jobs, and measures their collectives. Exits 1 if a result is wrong, or if a flow was
    counted off its planned path.

    With a scenario: each of its cases and failures, beside what the simulator says of the same jobs on the same
    paths, in the folder --out/--name. Exits 1, too, if the ratio of two policies' times is 15 % off.
    """
    for package in NEEDED:
        if importlib.util.find_spec(package) is None:
            raise CommandError(
                f"{package} is not installed: pip install 'fairspine[controller,emulation]' (make setup does)"
            )
    from emulation.experiments.command import run_isolated
    from emulation.experiments.request import ExperimentRequest

    names = None if policies is None else tuple(part.strip() for part in policies.split(","))
    if scenario is not None:
        given = {"--fabric": fabric, "--job": job, "--seed": seed, "--draws": draws}
        given |= {"--expect-faster": expect_faster, "--qps": qps > 1}
        for option, value in given.items():
            if value:
                raise InputError("a scenario says that itself", field=option)
        from emulation.experiments.scenario_command import run_scenario

        wanted = ExperimentRequest(scenario, (), mode=mode, seconds=seconds, link_mbps=link_mbps, out=out / name)
        sys.exit(run_scenario(scenario, wanted, names, "json" if format is OutputFormat.JSON else "table"))
    if fabric is None or not job:
        raise InputError("is missing, and there is no --scenario", field="--job" if fabric is not None else "--fabric")
    first = 1 if seed is None else seed
    request = ExperimentRequest(
        fabric=fabric,
        jobs=tuple(job),
        policies=names or tuple(DEFAULT_POLICIES.split(",")),
        mode=mode,
        seeds=tuple(range(first, first + (3 if draws is None else draws))),
        seconds=seconds,
        qps=qps,
        link_mbps=link_mbps,
        out=out,
        name=name,
        expect_faster=expect_faster,
    )
    sys.exit(run_isolated(request, "json" if format is OutputFormat.JSON else "table"))
