"""``fairspine emulate``: jobs under several policies on an emulated fabric, measured on packets. Needs root."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.connection import completion
from controller.cli.local.planning import QpModeOption, QpsOption
from controller.cli.shared.command_error import CommandError
from controller.cli.shared.enforcement_help import ENFORCEMENTS_TEXT
from controller.cli.shared.output import Printer
from controller.cli.shared.policy_help import POLICIES_TEXT
from controller.config import Settings
from controller.model.errors import InputError

_NEEDED = ("mininet", "scapy", "ryu", "eventlet")
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
            help="A scenario of 'fairspine simulate' instead of fabric and jobs; measured and simulated times are "
            "compared.",
            show_default=False,
        ),
    ] = None,
    policies: Annotated[
        str | None,
        typer.Option(
            "--policies",
            help=f"Policies, separated by commas; all are compared with the first; {POLICIES_TEXT}. fair+shifts: jobs "
            "that compute begin their iterations when fair advises. fair+paced: hosts keep the rates that the "
            "plan gives flows which share links; fair+windows: by windows, as of NICs that cannot pace. "
            "hedera-first_fit, hedera-annealing: nothing is pushed, and the flows "
            "that send are placed once in a --period.  "
            f"[default: {DEFAULT_POLICIES}, or the scenario's]",
            show_default=False,
        ),
    ] = None,
    enforcement: Annotated[
        str,
        typer.Option(
            "--enforcement",
            metavar="NAME",
            help=f"How switches follow plans: {ENFORCEMENTS_TEXT}.",
            autocompletion=completion.enforcements,
        ),
    ] = Settings.enforcement,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, max=2**31, help="Seed of the first draw.  [default: 1]", show_default=False),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option("--draws", help="Draws of each randomised policy.  [default: 3]", show_default=False),
    ] = None,
    period: Annotated[
        float | None,
        typer.Option(
            "--period",
            metavar="SECONDS",
            help="Time between two looks of Hedera's loop.  [default: a fifth of --seconds, 0.5 at least]",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option("--seconds", help="Approximate time of the longest job's iteration if it is alone on the fabric."),
    ] = 5.0,
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations",
            min=1,
            help="Iterations of each job.  [default: 10 if some job states computing times, else 1]",
            show_default=False,
        ),
    ] = None,
    qps: QpsOption = 1,
    qp_mode: QpModeOption = "split",
    link_mbps: Annotated[
        float | None,
        typer.Option("--link-mbps", help="Rate of the fastest link.  [default: as two cores can carry]"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for picture, numbers and logs.")] = Path(
        "out"
    ),
    name: Annotated[str, typer.Option("--name", help="Name of the files NAME.png and NAME.json.")] = "emulate",
    expect_faster: Annotated[
        bool, typer.Option("--expect-faster", help="Fail if a job is not faster than under the first policy.")
    ] = False,
    learn: Annotated[
        str | None,
        typer.Option(
            "--learn",
            metavar="FEEDERS",
            help="Push no job: have the controller learn them from what hosts report (host), switches sample (sflow) "
            "or leaves count in watch windows (watch), compare with the truth, and measure the plan for what was "
            "learned beside that for pushed jobs. Several, separated by commas: one after the other.",
            show_default=False,
        ),
    ] = None,
    replans: Annotated[
        int,
        typer.Option(
            "--replans",
            metavar="N",
            help="With --learn: plan the learned jobs N times while they run, with rules written in idle times, and N "
            "times amid a burst; count out-of-sequence NAKs.",
            show_default=False,
        ),
    ] = 0,
    *,
    output: Printer,
) -> None:
    """Run jobs on packets under several policies, and measure them.

    The command starts the fabric on Mininet and Open vSwitch (a fabric of routers on Linux routers, with an agent on
    each host), with links a thousand times slower and jobs of fewer bytes, runs the controller, pushes the jobs, and
    measures their collectives.

    With a scenario, every case and failure is measured and also simulated on the same paths; the results are in the
    folder --out/--name.
    """
    check_installed()
    from emulation.experiments.command import run_isolated
    from emulation.experiments.request import ExperimentRequest

    names = None if policies is None else tuple(part.strip() for part in policies.split(","))
    if scenario is not None:
        given = {"--fabric": fabric, "--job": job, "--seed": seed, "--draws": draws, "--iterations": iterations}
        given |= {
            "--learn": learn is not None,
            "--replans": replans != 0,
            "--period": period is not None,
            "--expect-faster": expect_faster,
            "--qps": qps > 1,
            "--qp-mode": qp_mode != "split",
        }
        for option, value in given.items():
            if value:
                raise InputError("is defined by the scenario", field=option)
        from emulation.experiments.scenario_command import run_scenario

        wanted = ExperimentRequest(
            scenario, (), enforcement=enforcement, seconds=seconds, link_mbps=link_mbps, out=out / name
        )
        sys.exit(run_scenario(scenario, wanted, names, "json" if not output.is_table else "table"))
    if fabric is None or not job:
        raise InputError("is required without --scenario", field="--job" if fabric is not None else "--fabric")
    first = 1 if seed is None else seed
    request = ExperimentRequest(
        fabric=fabric,
        jobs=tuple(job),
        policies=names or tuple(DEFAULT_POLICIES.split(",")),
        enforcement=enforcement,
        seeds=tuple(range(first, first + (3 if draws is None else draws))),
        seconds=seconds,
        iterations=() if iterations is None else (iterations,),
        qps=qps,
        qp_mode=qp_mode,
        link_mbps=link_mbps,
        out=out,
        name=name,
        expect_faster=expect_faster,
        learn=learn or "",
        replans=replans,
        period=period,
    )
    sys.exit(run_isolated(request, "json" if not output.is_table else "table"))


def check_installed() -> None:
    """Check that what the lab and its controller import is installed.

    Raises:
        CommandError: it is not.
    """
    for package in _NEEDED:
        if importlib.util.find_spec(package) is None:
            raise CommandError(
                f"{package} is not installed: pip install 'fairspine[controller,emulation]' (make setup does)"
            )
