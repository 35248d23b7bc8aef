"""``fairspine plan`` and ``fairspine compare``: plans from files, or at a running controller."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from controller.cli.connection import completion
from controller.cli.connection.remote import Remote
from controller.cli.connection.watch import Watch
from controller.cli.live.live_comparison import compare_live
from controller.cli.live.live_plan import show_live_plan
from controller.cli.shared.command_error import CommandError
from controller.cli.shared.option_groups import was_given
from controller.cli.shared.output import Printer, number, plural, seconds
from controller.cli.shared.plan_table import print_plan
from controller.cli.shared.policy_help import POLICIES_TEXT
from controller.config import MOST_HEADROOM
from controller.model.choices.qp_mode import MOST_QPS, QpMode
from controller.model.errors import InputError
from controller.model.paces import DEFAULT_MTU, LEAST_MTU, MOST_MTU, PacketSize

if TYPE_CHECKING:
    from controller.model.fabric import Fabric
    from controller.model.plan import Plan
    from controller.model.traffic import Traffic
    from controller.routing import PreviousPlan

FabricOption = Annotated[Path, typer.Option("--fabric", metavar="FILE", help="The fabric (YAML or JSON).")]
OptionalFabricOption = Annotated[
    Path | None, typer.Option("--fabric", metavar="FILE", help="The fabric (YAML or JSON).", show_default=False)
]
_JOB: Any = typer.Option(
    "--job",
    metavar="FILE",
    # Without a parser of its own, typer makes a validator for each of the files: a second for two thousand.
    parser=Path,
    help="A job (JSON or YAML); may be given several times.",
)
JobOption = Annotated[list[Path], _JOB]
OptionalJobOption = Annotated[list[Path] | None, _JOB]
SeedOption = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of randomised policies.")]


def _option_names() -> list[str]:
    from controller.routing.options_text import NAMES

    return [f"{name}=" for name in NAMES]


PolicyOption = Annotated[
    str, typer.Option("--policy", help=f"The routing policy; {POLICIES_TEXT}.", autocompletion=completion.policies)
]
OptionsOption = Annotated[
    list[str],
    typer.Option(
        "--option",
        "-o",
        metavar="NAME=VALUE",
        help="An option of the policy, such as max_splits=16; may be given several times "
        "(docs/explanation/policies.md).",
        autocompletion=lambda: _option_names(),
    ),
]

HeadroomOption = Annotated[
    float,
    typer.Option(
        "--headroom",
        min=0.0,
        max=MOST_HEADROOM,
        help="Fraction of every link to reserve for traffic outside of plans (storage, checkpoints).",
    ),
]

QpsOption = Annotated[
    int, typer.Option("--qps", min=1, max=MOST_QPS, help="QPs of each connection of jobs that do not say.")
]
QpModeOption = Annotated[
    QpMode,
    typer.Option("--qp-mode", help="How these are used: messages are split over all, or take turns."),
]

MtuOption = Annotated[
    int,
    typer.Option(
        "--mtu",
        min=LEAST_MTU,
        max=MOST_MTU,
        help="Bytes of payload in a full packet, from which the paces of flows follow (docs/explanation/objective.md).",
    ),
]

BoundOption = Annotated[
    Literal["quick", "exact"],
    typer.Option(
        "--bound",
        help="The bound of split flows: one that takes a tenth of a second at most, or the exact one "
        "(docs/explanation/objective.md).",
    ),
]

_OF_FILES = ("fabric", "job", "policy", "seed", "option", "previous", "headroom", "qps", "qp_mode", "bound", "mtu")


def plan(
    ctx: typer.Context,
    fabric: OptionalFabricOption = None,
    job: OptionalJobOption = None,
    policy: PolicyOption = "fair",
    seed: SeedOption = 0,
    option: OptionsOption = [],  # noqa: B006 (typer makes a new one)
    previous: Annotated[
        Path | None,
        typer.Option(
            "--previous",
            metavar="FILE",
            help="An existing plan (JSON of this command); the new plan moves few of its flows.",
        ),
    ] = None,
    headroom: HeadroomOption = 0.0,
    qps: QpsOption = 1,
    qp_mode: QpModeOption = "split",
    bound: BoundOption = "quick",
    mtu: MtuOption = DEFAULT_MTU,
    live: Annotated[bool, typer.Option("--live", help="Show the plan of a running controller instead.")] = False,
    *,
    remote: Remote,
    output: Printer,
    watch: Watch,
) -> None:
    """Plan the paths of flows of jobs and print the objective, or (--live) show the plan of a running controller."""
    if live:
        refuse_with_live(ctx, _OF_FILES)
        client = remote.client()
        watch.show(lambda: show_live_plan(client, output))
        return
    if watch.watch:
        raise InputError("requires --live", field="--watch")
    place_file, job_files = needed_files(ctx, fabric, job)

    from controller.model.paces import Paces
    from controller.planning.headroom import with_headroom
    from controller.planning.make_plan import make_plan
    from controller.planning.plan_document import plan_document
    from controller.routing import warm_up_for
    from controller.routing.options_text import parse_options
    from controller.routing.pacing.paces import wire_paces
    from controller.routing.split_check import check_splits
    from controller.routing.times.starving import starved_line

    options = parse_options(option)
    place, traffic = load_traffic(place_file, job_files, qps, qp_mode)
    check_splits(traffic.collectives, [policy], options)
    _check_policies([policy], "--policy")
    before = _previous_plan(previous, place) if previous else None
    # So that the reported time does not include loading compiled code.
    warm_up_for([policy], options, place, traffic, replan=before is not None)
    made = make_plan(
        with_headroom(place, headroom),
        traffic,
        policy=policy,
        seed=seed,
        previous=before,
        options=options,
        exact_bound=bound == "exact",
        clock=time.perf_counter,
    )
    planned_on, traffic = with_headroom(place, headroom), traffic.with_classes(made.classes)
    wire_gbps = wire_paces(planned_on, traffic, made.assignment, schedule=made.schedule, rule=options.paces)
    document = plan_document(place, traffic, made, Paces(wire_gbps, PacketSize(mtu)))
    if not output.is_table:
        output.document(document)
    else:
        _print_made(output, place, traffic, made, document)
    if made.starved:
        typer.echo(f"warning: {starved_line(made.starved)}", err=True)
    _fail_if_unroutable(traffic, made)


def compare(
    ctx: typer.Context,
    fabric: OptionalFabricOption = None,
    job: OptionalJobOption = None,
    policies: Annotated[
        str,
        typer.Option(
            "--policies",
            help=f"Policies, separated by commas, or 'all'; {POLICIES_TEXT}.",
            autocompletion=lambda: ["all", *completion.policies()],
        ),
    ] = "ecmp,greedy,fair",
    seed: SeedOption = 0,
    option: OptionsOption = [],  # noqa: B006 (typer makes a new one)
    headroom: HeadroomOption = 0.0,
    qps: QpsOption = 1,
    qp_mode: QpModeOption = "split",
    live: Annotated[
        bool,
        typer.Option("--live", help="Compare for the jobs of a running controller, on its present fabric, instead."),
    ] = False,
    *,
    remote: Remote,
    output: Printer,
) -> None:
    """Plan with several policies and print one row for each.

    The busiest link is that between switches with the highest load, as a multiple of its capacity, if every collective
    ran as fast as alone. On a fabric of optical circuits (docs/reference/topology.md), the policies are those of
    'topology', beside the ideal switch and a fat tree of equal cost.
    """
    names = [name.strip() for name in policies.split(",")]
    if live:
        refuse_with_live(ctx, ("fabric", "job", "seed", "option", "headroom", "qps", "qp_mode"))
        compare_live(remote.client(), names, output)
        return
    place_file, job_files = needed_files(ctx, fabric, job)

    from controller.model.files.fabric_file import OpticalFabricError
    from controller.planning.compare import compare as compare_policies
    from controller.planning.headroom import with_headroom
    from controller.planning.tenant_rows import tenant_rows
    from controller.routing import POLICIES, warm_up_for
    from controller.routing.options_text import parse_options
    from controller.routing.split_check import check_splits

    options = parse_options(option)
    try:
        place, traffic = load_traffic(place_file, job_files, qps, qp_mode)
    except OpticalFabricError as error:
        _compare_circuits(ctx, error, job_files, names, seed, output)
        return
    names = list(POLICIES) if policies == "all" else names
    _check_policies(names, "--policies")
    if policies != "all":
        check_splits(traffic.collectives, names, options)
    warm_up_for(names, options, place, traffic)
    standings = compare_policies(
        with_headroom(place, headroom), traffic, names, seed=seed, options=options, clock=time.perf_counter
    )
    rows = [
        {
            "policy": standing.plan.policy,
            "min_speed": standing.plan.objective.min_speed,
            "mean_speed": standing.mean_speed,
            "gap": standing.plan.gap,
            "busiest_link": standing.busiest_link,
            "pressure": standing.pressure,
            "pieces": standing.pieces,
            "slowdown": None if standing.plan.times is None else standing.plan.times.slowdown,
            "shifted": None if standing.plan.schedule is None else standing.plan.schedule.slowdown,
            "seconds": standing.plan.seconds,
            **({"tenants": tenant_rows(place.tenants, traffic, standing.plan)} if place.tenants else {}),
        }
        for standing in standings
    ]
    if not output.is_table:
        output.document({"flows": traffic.n_flows, "policies": rows})
    else:
        _print_comparison(output, traffic, rows)
    _fail_if_unroutable(traffic, standings[0].plan)


def _compare_circuits(
    ctx: typer.Context, error: InputError, jobs: Sequence[Path], names: Sequence[str], seed: int, output: Printer
) -> None:
    """Compare on optical circuits.

    Raises:
        InputError: the command line has options of packet switches.
    """
    from controller.circuits.planning.comparison import COMPARED
    from controller.cli.local.circuit_comparison import compare_circuits

    for name in ("option", "headroom", "qps", "qp_mode"):
        if was_given(ctx, name):
            raise InputError(
                "cannot be used on optical circuits", source=error.source, field=f"--{name.replace('_', '-')}"
            )
    chosen = names if was_given(ctx, "policies") and list(names) != ["all"] else COMPARED
    compare_circuits(Path(error.source), jobs, chosen, seed, output)


def needed_files(ctx: typer.Context, fabric: Path | None, job: list[Path] | None) -> tuple[Path, list[Path]]:
    """Return the files of a command that has not been given --live, which needs them."""
    for name, value in (("fabric", fabric), ("job", job)):
        if not value:
            ctx.fail(f"Missing option '--{name}'.")
    assert fabric is not None
    assert job is not None
    return fabric, job


def refuse_with_live(ctx: typer.Context, options: Sequence[str]) -> None:
    """Refuse options that cannot be used with --live.

    Raises:
        InputError: the command line has one of them.
    """
    for name in options:
        if was_given(ctx, name):
            raise InputError("cannot be used with --live", field=f"--{name.replace('_', '-')}")


def load_traffic(
    fabric_file: Path, job_files: Sequence[Path], qps: int = 1, qp_mode: QpMode = "split"
) -> tuple[Fabric, Traffic]:
    """Load a fabric, and the traffic of some jobs on it, in their order; ``qps``: of jobs that do not say.

    A job without flows is named on standard error, since a plan of it says that all is optimal; and collectives that
    overlap with computing that the job does not state.

    Raises:
        InputError: a file is invalid; names the file and the reason.
    """
    from controller.model.files.fabric_file import load_fabric
    from controller.model.job import NO_FLOWS
    from controller.model.queue_pairs import QueuePairs
    from controller.planning.live_traffic import live_traffic
    from controller.workload.load import load_jobs
    from controller.workload.waits import not_overlapped, not_overlapped_line

    fabric = load_fabric(fabric_file)
    described, jobs = load_jobs(fabric, job_files, QueuePairs(qps, qp_mode))
    for given, job in zip(described, jobs, strict=True):
        if not job.n_flows:
            typer.echo(f"warning: job {job.name}: {NO_FLOWS}", err=True)
        if concurrent := not_overlapped(given):
            typer.echo(f"warning: job {job.name}: {not_overlapped_line(concurrent)}", err=True)
    return fabric, live_traffic(fabric, jobs)


def _previous_plan(file: Path, fabric: Fabric) -> PreviousPlan:
    from controller.planning.earlier_plan import load_previous

    return load_previous(file, fabric)


def _check_policies(names: Sequence[str], option: str) -> None:
    """Check the names of the policies that an option gives before any work that takes time."""
    from controller.routing import POLICIES

    for name in names:
        POLICIES.named(name, field=option)


def _fail_if_unroutable(traffic: Traffic, made: Plan) -> None:
    """Raise ``CommandError`` if some flow has no live path, which depends on the fabric and not on the policy."""
    if len(made.unroutable):
        first = traffic.flow_id(int(made.unroutable[0]))
        raise CommandError(f"{len(made.unroutable)} of {traffic.n_flows} flows have no live path, the first is {first}")


def _print_made(output: Printer, fabric: Fabric, traffic: Traffic, made: Plan, document: dict[str, Any]) -> None:
    import numpy as np

    flows = np.bincount(traffic.collective, minlength=len(traffic.collectives))
    print_plan(
        output,
        f"{made.policy}: {plural(traffic.n_flows, 'flow')} in {plural(made.assignment.n_rows, 'piece')} "
        f"placed in {seconds(made.seconds)}, "
        f"{made.status}",
        document,
        flows.tolist(),
        document["links"][fabric.first_cable_link :],
    )


def _print_comparison(output: Printer, traffic: Traffic, rows: list[dict[str, Any]]) -> None:
    timed = any(row["slowdown"] is not None for row in rows)
    shifted = any(row["shifted"] is not None for row in rows)
    output.table(
        f"{plural(traffic.n_flows, 'flow')}, {plural(len(traffic.collectives), 'collective')}",
        (
            "policy",
            "min speed>",
            "mean speed>",
            "gap>",
            "busiest link",
            "asked for>",
            "pieces>",
            *(("iterations ÷ alone>",) if timed else ()),
            *(("with shifts>",) if shifted else ()),
            "time>",
        ),
        (
            (
                row["policy"],
                number(row["min_speed"]),
                number(row["mean_speed"]),
                number(row["gap"]),
                row["busiest_link"] or "-",
                f"{row['pressure']:.0%}",
                str(row["pieces"]),
                *((number(row["slowdown"]),) if timed else ()),
                *((number(row["shifted"]),) if shifted else ()),
                seconds(row["seconds"]),
            )
            for row in rows
        ),
        give_up=("pieces>", "asked for>", "mean speed>", "time>", "busiest link"),
    )
    if "tenants" in rows[0]:
        _print_tenants_by_policy(output, rows)


def _print_tenants_by_policy(output: Printer, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print what each tenant gets under each policy: its lowest speed, and the expected iterations of its jobs."""
    columns = [f"{tenant['name']}, weight {tenant['weight']:g}>" for tenant in rows[0]["tenants"]]
    for what, title in (
        ("min_speed", "the lowest planned speed of each tenant"),
        ("slowdown", "iterations of each tenant's jobs divided by those alone"),
    ):
        if any(tenant[what] is not None for row in rows for tenant in row["tenants"]):
            output.table(
                title,
                ("policy", *columns),
                [(row["policy"], *(number(tenant[what]) for tenant in row["tenants"])) for row in rows],
            )
