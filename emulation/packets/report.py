"""Report of a referee: one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from controller.model.fabric import Fabric
from controller.whole_file import naming_the_mend, write_bytes
from emulation.evaluation.targets import Reference
from emulation.packets.pictures import plot_links, plot_ratios, plot_transfers
from emulation.packets.referee import Bout
from emulation.packets.settings import EventCore, PacketSettings
from emulation.packets.summary import RefereeStanding

COLUMNS = ("policy", "÷ ideal", "÷ best spraying", "fluid ÷ ideal", "sent again", "deviation")

JOB_COLUMNS = ("case", "policy", "job", "µs", "÷ ideal", "÷ best spraying", "fluid µs", "deviation")


@dataclass(frozen=True)
class RefereeLine:
    """A row of a table."""

    cells: Sequence[str]
    above: bool


@dataclass(frozen=True)
class RefereeSection:
    """One kind of cases with one failure: its table, pictures (what each shows, PNG in base64), sources of others."""

    name: str
    lines: Sequence[RefereeLine]
    pictures: Sequence[tuple[str, str]]
    sources: Sequence[str]


def engine_text(settings: PacketSettings) -> str:
    """Return one sentence that says what simulated the packets."""
    core = {EventCore.OWN: "fairspine's packet engine", EventCore.NS3: "ns-3 with fairspine's hosts"}[settings.core]
    kept = f", windows of {settings.pace_window:g} round trips in place of paces" if settings.pace_window else ""
    if settings.meters:
        kept = f", meters of {settings.meters:g} bandwidth-delay products in place of paces"
    return (
        f"Packets: {core}; congestion control {settings.control}, recovery {settings.recovery}, "
        f"MTU {settings.packets.mtu}, queues of {settings.queue:g} bandwidth-delay products (ECN from "
        f"{settings.mark_from:.0%} to {settings.mark_all:.0%}), {settings.cable_seconds * 1e6:g} µs a cable{kept}."
    )


def cells_of(standing: RefereeStanding) -> tuple[str, ...]:
    """Return the cells of a row of ``COLUMNS``."""
    return (
        standing.policy,
        f"{ratio(standing.over_ideal)} ({ratio(standing.over_ideal_worst)})",
        f"{ratio(standing.over_spraying)} ({ratio(standing.over_spraying_worst)})",
        ratio(standing.fluid_over_ideal),
        f"{standing.again:.2%}",
        f"{part(standing.deviation)} ({part(standing.deviation_worst)})",
    )


def references_for(references: Sequence[Reference], kind: str, failure: str) -> list[Reference]:
    """Return the published figures that belong beside these cases."""
    return [each for each in references if failure in each.ratio and (not each.kinds or kind in each.kinds)]


def cells_of_reference(reference: Reference, failure: str) -> tuple[str, ...]:
    """Return the cells of a row of ``COLUMNS`` of a published figure, of which only the ratio to the ideal is known."""
    worst = reference.ratio_worst.get(failure)
    text = ratio(reference.ratio[failure]) + ("" if worst is None else f" ({ratio(worst)})")
    return (reference.name, text, *("-" for _ in COLUMNS[2:]))


def ratio(value: float) -> str:
    """Return a ratio as text; a dash for none."""
    return "-" if math.isnan(value) else f"{value:.3f}"


def part(value: float) -> str:
    """Return a signed part of one as per cent; a dash for none."""
    return "-" if math.isnan(value) else f"{100 * value:+.1f} %"


def write_referee_report(
    folder: Path,
    fabric: Fabric,
    bouts: Sequence[Bout],
    standings: Sequence[RefereeStanding],
    engines: str,
    references: Sequence[Reference] = (),
    further: Sequence[tuple[str, ...]] = (),
) -> Path:
    """Write ``referee.html`` and return its path.

    Args:
        folder: made if it is missing.
        fabric: of the bouts.
        bouts: all of them.
        standings: their summary.
        engines: what simulated the packets.
        references: published figures, shown below ours.
        further: rows of ``JOB_COLUMNS`` of other engines.

    Raises:
        InputError: the folder cannot be made, or the file cannot be written.
    """
    with naming_the_mend(folder):
        folder.mkdir(parents=True, exist_ok=True)
    page = folder / "referee.html"
    loader = PackageLoader("emulation.packets", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    sections = []
    for kind, failure in dict.fromkeys((each.kind, each.failure) for each in standings):
        own = [each for each in standings if (each.kind, each.failure) == (kind, failure)]
        shown = [bout for bout in bouts if (bout.case.kind, bout.failure) == (kind, failure)]
        first = [bout for bout in shown if (bout.case, bout.seed) == (shown[0].case, shown[0].seed)]
        pictures = [
            ("slowest job over the best spraying: mean and worst", plot_ratios(own)),
            (f"{shown[0].case.name}: load of links between switches", plot_links(fabric, first)),
            (f"{shown[0].case.name}: times of transfers (steps)", plot_transfers(first)),
        ]
        encoded = [(text, base64.b64encode(png).decode()) for text, png in pictures]
        others = references_for(references, kind, failure)
        lines = [
            *(RefereeLine(cells_of(each), each.above > 0) for each in own),
            *(RefereeLine(cells_of_reference(each, failure), False) for each in others),
        ]
        sources = [f"{each.name}: {each.source}" for each in others]
        sections.append(RefereeSection(f"{kind}, failed: {failure}", lines, encoded, sources))
    text = environment.get_template("referee.html.j2").render(
        title=f"{standings[0].scenario}: on packets and in the fluid model",
        engine=engines,
        columns=COLUMNS,
        sections=sections,
        job_columns=JOB_COLUMNS,
        jobs=[*(line for bout in bouts for line in job_lines(bout)), *further],
    )
    write_bytes(page, [text.encode()])
    return page


def job_lines(bout: Bout) -> list[tuple[str, ...]]:
    """Return the cells of rows of ``JOB_COLUMNS``: each job of a bout."""
    return [
        (
            bout.case.name,
            bout.contender.name,
            times.job,
            f"{times.packets * 1e6:,.0f}",
            ratio(times.packets / times.packet_ideal),
            ratio(times.packets / times.best_spraying),
            f"{times.fluid * 1e6:,.0f}",
            part(times.deviation),
        )
        for times in bout.jobs
    ]
