"""The list of links (``controller.rest.schemas.LinkList``): a table of numbers, and the document of chosen rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np
import orjson
from numpy.typing import NDArray

from controller.core.controller_state import ControllerState
from controller.model.paths.plane_places import plane_numbers
from controller.model.plan import Plan
from controller.model.switch_key import SwitchKey
from controller.telemetry.port_rates import UNKNOWN, Readings
from controller.views.documents import drained_cables, known_links
from controller.views.times import when


@dataclass(frozen=True, eq=False)
class LinkTable:
    """All that is told of the E directed links.

    Attributes:
        ids: [E] names.
        planes: [E] plane, from 1; ``None`` where NICs have one port.
        values: [E, 10] capacity, load, whether up, whether that is known, whether drained, rate, utilisation, dropped
            packets, errors, rate of what is in no plan; NaN where a value is not known.
    """

    ids: Sequence[str]
    planes: Sequence[int | None]
    values: NDArray[np.float64]


def link_table(
    state: ControllerState,
    readings: Readings,
    background: NDArray[np.float64],
    hashed: Plan | None = None,
    *,
    connected: Collection[SwitchKey],
) -> LinkTable:
    """Return the links with their planned load and their measured counters.

    Args:
        state: with a fabric.
        readings: newest counters of the ports.
        background: [E] rate of what is in no plan; NaN where it is not known.
        hashed: ECMP's plan, whose loads are given in place of the plan's.
        connected: keys of the connected switches.
    """
    there, plan = state.fabric, hashed or state.plan
    assert there is not None
    rates = readings.link_rates(there)
    load = plan.objective.link_load if plan is not None else np.zeros(there.n_links)
    drained = [False] * there.first_cable_link + [cable for cable in drained_cables(state) for _ in range(2)]
    counters = [np.where(counter == UNKNOWN, np.nan, counter) for counter in (rates.dropped, rates.errors)]
    used = rates.gbps / there.link_gbps
    known = known_links(there, connected, state.network)
    columns = (there.link_gbps, load, there.link_up, known, np.array(drained), rates.gbps, used, *counters, background)
    values = np.column_stack([column.astype(np.float64) for column in columns])
    return LinkTable(there.link_ids, plane_numbers(there), values)


def link_list(
    table: LinkTable,
    rows: NDArray[np.bool_] | None,
    *,
    version: str,
    since: str | None,
    under: str,
    measured: float | None,
    period: float,
) -> bytes:
    """Return the document of the links.

    Args:
        table: the links.
        rows: [E] the links to tell; ``None``: all.
        version: of the table.
        since: the version to which the rows are the changes; ``None``: the rows are all links.
        under: whose loads these are.
        measured: when the newest counters came, seconds since 1970.
        period: seconds between two polls of a switch.
    """
    chosen = range(len(table.ids)) if rows is None else np.flatnonzero(rows).tolist()
    values = table.values.tolist() if rows is None else table.values[rows].tolist()
    return orjson.dumps(
        {
            "under": under,
            "version": version,
            "since": since,
            "measured": None if measured is None else when(measured),
            "period": period,
            "links": [_row(table.ids[k], table.planes[k], row) for k, row in zip(chosen, values, strict=True)],
        }
    )


def _row(link: str, plane: int | None, values: list[float]) -> dict[str, str | float | bool | None]:
    gbps, load, up, known, drained, rate, used, dropped, errors, background = values
    return {
        "id": link,
        "plane": plane,
        "gbps": gbps,
        "load_gbps": load,
        "up": bool(up),
        "known": bool(known),
        "drained": bool(drained),
        "rate_gbps": None if isnan(rate) else rate,
        "utilisation": None if isnan(used) else used,
        "dropped": None if isnan(dropped) else int(dropped),
        "errors": None if isnan(errors) else int(errors),
        "background_gbps": None if isnan(background) else background,
    }
