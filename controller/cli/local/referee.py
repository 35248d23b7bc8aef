"""``fairspine referee``: the plans of a scenario on packets, beside the fluid simulator and ways to spray."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from controller.cli.local.simulate import simulations_progress
from controller.cli.shared.command_error import CommandError
from controller.cli.shared.exit_codes import INTERRUPTED
from controller.cli.shared.output import Printer
from controller.cli.shared.policy_help import ScenarioPolicies
from controller.model.errors import InputError

if TYPE_CHECKING:
    from emulation.packets.referee import Bout

Kind = TypeVar("Kind", bound=StrEnum)


def referee(
    scenario: Annotated[Path, typer.Option("--scenario", metavar="FILE", help="A scenario, as simulate takes it.")],
    policies: ScenarioPolicies = None,
    sprayings: Annotated[
        str, typer.Option("--sprayings", help="Ways to spray packets, separated by commas.")
    ] = "random,round_robin,adaptive,reps",
    control: Annotated[
        str, typer.Option("--control", help="Congestion control of hosts: dctcp, or window (constant).")
    ] = "dctcp",
    recovery: Annotated[
        str, typer.Option("--recovery", help="Of lost packets: trim, selective, or go_back_n.")
    ] = "trim",
    engine: Annotated[
        str, typer.Option("--engine", help="What carries out events: own, or ns3 (slower, equal results).")
    ] = "own",
    queue: Annotated[
        float, typer.Option("--queue", min=0.05, max=1000, help="Room in queues, in bandwidth-delay products.")
    ] = 1.0,
    pace_window: Annotated[
        float,
        typer.Option(
            "--pace-window",
            min=0,
            max=100,
            help="Hosts cannot pace: a flow has so many round trips of its pace in flight at most. 0: they pace.",
        ),
    ] = 0.0,
    meters: Annotated[
        float,
        typer.Option(
            "--meters",
            min=0,
            max=100,
            help="The first switch drops what is above the pace of a flow, with buckets of so many bandwidth-delay "
            "products; hosts keep none. 0: hosts pace.",
        ),
    ] = 0.0,
    tolerance: Annotated[
        float,
        typer.Option("--tolerance", min=0, help="Part by which packets may differ from the fluid model, with paces."),
    ] = 0.02,
    hosts_tolerance: Annotated[
        float, typer.Option("--hosts-tolerance", min=0, help="The same for plans whose hosts keep no pace.")
    ] = 0.05,
    lab: Annotated[
        bool,
        typer.Option("--lab", help="Also run the plans on Open vSwitch and hosts of this machine (as root; small)."),
    ] = False,
    lab_seconds: Annotated[
        float,
        typer.Option(
            "--lab-seconds", min=0.1, max=600, help="Approximate time of the longest job's iteration, alone on the lab."
        ),
    ] = 5.0,
    lab_tolerance: Annotated[
        float, typer.Option("--lab-tolerance", min=0, help="Part by which the lab may differ from the fluid model.")
    ] = 0.15,
    htsim: Annotated[
        str | None,
        typer.Option("--htsim", metavar="PROGRAM", help="Also run sprayings in htsim_uec: a path, or a name in PATH."),
    ] = None,
    htsim_balancing: Annotated[
        str, typer.Option("--htsim-balancing", help="Ways of htsim_uec to spread packets, separated by commas.")
    ] = "oblivious,reps,mixed,ecmp",
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the report.")] = Path("out/referee"),
    keep: Annotated[
        bool, typer.Option("--keep", help="Also keep the inputs of the packet engine and the answers to it.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only the first case of each kind, at most one failure, one seed.")
    ] = False,
    *,
    output: Printer,
) -> None:
    """Simulate a scenario packet by packet, and compare with the fluid simulator and with spraying.

    Exits with 1 where a plan's time on packets differs from the fluid model's by more than the tolerance.
    """
    from emulation.errors import LabError
    from emulation.evaluation.scenario import load_scenario
    from emulation.experiments.lab_bouts import LabEngine, lab_lines, lab_standings
    from emulation.packets.htsim_uec import (
        Balancing,
        check_for_htsim,
        htsim_bouts,
        htsim_lines,
        htsim_program,
        htsim_standings,
    )
    from emulation.packets.input_file import PacketSpread
    from emulation.packets.program import built_program
    from emulation.packets.referee import referee as run
    from emulation.packets.report import (
        COLUMNS,
        JOB_COLUMNS,
        cells_of,
        cells_of_reference,
        engine_text,
        job_lines,
        references_for,
        write_referee_report,
    )
    from emulation.packets.settings import CongestionControl, EventCore, PacketSettings, Recovery
    from emulation.packets.summary import standings_of

    names = None if policies is None else [name.strip() for name in policies.split(",")]
    grid = load_scenario(scenario, names)
    if quick:
        grid = grid.quick()
    spreads = _choices(PacketSpread, "--sprayings", sprayings)
    if PacketSpread.PINNED in spreads:
        raise InputError("does not spray", field="--sprayings", value="pinned")
    _check_meters(meters, pace_window, lab=lab)
    settings = PacketSettings(
        control=_choice(CongestionControl, "--control", control),
        recovery=_choice(Recovery, "--recovery", recovery),
        queue=queue,
        pace_window=pace_window,
        meters=meters,
        core=_choice(EventCore, "--engine", engine),
        record_transfers=True,
        bin_seconds=grid.bins,
    )
    balancings = _choices(Balancing, "--htsim-balancing", htsim_balancing)
    other = [] if htsim is None else [htsim_program(htsim)]
    _tell(grid.notes)
    kept = out / "inputs" if keep else None
    bouts: list[Bout] = []
    stopped = False
    try:
        built_program(settings.core)
        for _ in other:
            check_for_htsim(grid)
        machine = LabEngine(grid, out / "lab", lab_seconds, pace_window) if lab else None
        _tell([] if machine is None else machine.notes)
        with simulations_progress() as progress:
            try:
                for own in run(grid, settings, sprayings=spreads, keep=kept, progress=progress):
                    bouts += own
            except KeyboardInterrupt:
                if not bouts:
                    raise
                stopped = True
        measured = [] if machine is None or stopped else machine.bouts()
        with simulations_progress() as progress:
            once = [] if stopped else other
            theirs = [bout for own in once for bout in htsim_bouts(own, grid, settings, balancings, kept, progress)]
    except LabError as error:
        raise CommandError(str(error)) from None
    except InputError as error:
        raise error.with_source(str(scenario)) from None
    standings = standings_of(grid.name, bouts, tolerance, hosts_tolerance)
    standings += lab_standings(grid.name, measured, lab_tolerance)
    standings += htsim_standings(grid.name, theirs)
    further = [line for bout in measured for line in lab_lines(bout)]
    further += [line for bout in theirs for line in htsim_lines(bout)]
    engines = " ".join([engine_text(settings), *(f"{own.text}." for own in other)])
    page = write_referee_report(out, grid.fabric, bouts, standings, engines, grid.references, further)
    if not output.is_table:
        output.document(
            {
                "report": str(page),
                "engine": engines,
                "standings": [standing.document() for standing in standings],
                "bouts": [bout.document() for bout in bouts],
                "lab": [bout.document() for bout in measured],
                "htsim": [bout.document() for bout in theirs],
            }
        )
    else:
        typer.echo(engines)
        for kind, failure in dict.fromkeys((each.kind, each.failure) for each in standings):
            those = [each for each in standings if (each.kind, each.failure) == (kind, failure)]
            title = f"{grid.name}, {kind}, failed: {failure}: slowest job, mean (worst) of {those[0].cases} cases"
            columns = [COLUMNS[0], *(f"{name}>" for name in COLUMNS[1:])]
            others = references_for(grid.references, kind, failure)
            lines = [*map(cells_of, those), *(cells_of_reference(each, failure) for each in others)]
            output.table(title, columns, lines, give_up=columns[3:5])
            for each in others:
                typer.echo(f"{each.name}: {each.source}")
        columns = [*JOB_COLUMNS[:3], *(f"{name}>" for name in JOB_COLUMNS[3:])]
        lines = [*(line for bout in bouts for line in job_lines(bout)), *further]
        output.table("jobs", columns, lines, give_up=[columns[0], columns[6]], shorten=columns[2:3])
        typer.echo(f"report: {page}")
    if stopped:
        raise CommandError(
            f"stopped; the report has the {len(bouts)} simulations of whole cases", exit_code=INTERRUPTED
        )
    above = sum(standing.above for standing in standings)
    if above:
        planned = sum(not bout.contender.sprays for bout in bouts) + len(measured)
        raise CommandError(
            f"in {above} of {planned} runs of plans, packets differ from the fluid model by more than the tolerance "
            f"({tolerance:g} with paces, {hosts_tolerance:g} without{f', {lab_tolerance:g} on the lab' * lab})"
        )


def _check_meters(meters: float, pace_window: float, *, lab: bool) -> None:
    """Check that nothing else is to keep paces than meters.

    Raises:
        InputError: it is.
    """
    if meters and pace_window:
        raise InputError("paces are kept by one of --meters and --pace-window", field="--meters", value=meters)
    if meters and lab:
        raise InputError("switches of the lab have no meters", field="--meters", value=meters)


def _tell(notes: Iterable[str]) -> None:
    for note in notes:
        typer.echo(f"note: {note}", err=True)


def _choices(kinds: type[Kind], field: str, names: str) -> list[Kind]:
    """Return the members of these names, separated by commas.

    Raises:
        InputError: there is none of such a name.
    """
    return [_choice(kinds, field, name.strip()) for name in names.split(",")]


def _choice(kinds: type[Kind], field: str, value: str) -> Kind:
    """Return the member of this name.

    Raises:
        InputError: there is none.
    """
    if value not in list(kinds):
        raise InputError(f"there are {', '.join(kinds)}", field=field, value=value)
    return kinds(value)
