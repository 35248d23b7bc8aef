"""What is so at one moment, as Prometheus's metric families (docs/telemetry.md lists them all). Pure."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import chain
from typing import get_args

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from controller.model.enforcement import ENFORCEMENTS
from controller.model.fabric import Fabric
from controller.model.plan import Plan
from controller.planning.plan_document import slowest
from controller.rest.backend import Document, Mode
from controller.service.documents import Active, drained_cables
from controller.service.driver import Driver
from controller.service.reports import Southbound, SouthboundCounts, SwitchReport
from controller.service.step import Step
from controller.southbound.rollout import Refusal
from controller.telemetry.instruments import AT_ONCE, Instruments, exposition
from controller.telemetry.readings import UNKNOWN, LinkRates, Readings

BYTES_PER_GBIT = 1e9 / 8
STATUSES = ("ok", "starting", "degraded")


@dataclass(frozen=True)
class Telemetry:
    """What the controller measures of itself and of the network.

    Attributes:
        period: seconds between two polls of a switch; 0: none is polled.
        streams: how many clients read the events now.
        rest: lets others have the interpreter, from offloaded work that takes long.
    """

    readings: Readings = field(default_factory=Readings)
    instruments: Instruments = field(default_factory=Instruments)
    period: float = 0.0
    streams: Callable[[], int] = lambda: 0
    rest: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Moment:
    """Everything that is told, taken together on the event loop.

    Attributes:
        status: as ``/healthz`` says.
        measured: when the newest counters came, ``computed_at``: when the plan was made; seconds since 1970.
        expected: how many switches the fabric file names.
        store_works: whether the store takes what it is given.
    """

    step: Step
    status: str
    switches: Sequence[SwitchReport]
    expected: int | None
    active: Active
    computed_at: float
    refusal: Refusal | None
    counts: SouthboundCounts
    store_works: bool
    readings: Readings
    measured: float | None
    period: float
    streams: int


def moment(
    driver: Driver, southbound: Southbound, telemetry: Telemetry, health: Document, measured: float | None
) -> Moment:  # fmt: skip
    """Everything, as it is now; called on the event loop.

    Args:
        health: as ``/healthz`` says.
        measured: when the newest counters came, seconds since 1970.
    """
    assert not isinstance(health, bytes)
    return Moment(
        step=driver.step,
        status=health["status"],
        switches=tuple(southbound.switches()),
        expected=health["switches"]["expected"],
        active=driver.installation.active,
        computed_at=driver.computed_at,
        refusal=southbound.refusal(),
        counts=southbound.counts(),
        store_works=not driver.keeper.error,
        readings=telemetry.readings,
        measured=measured,
        period=telemetry.period,
        streams=telemetry.streams(),
    )


def exposed(
    moment: Moment, counted: Sequence[Metric], accept: str, rest: Callable[[], None]
) -> tuple[bytes, str]:  # fmt: skip
    """The text of all that is so and all that was counted, and its type."""
    return exposition(chain(families(moment, rest), counted), accept, rest)


def families(moment: Moment, rest: Callable[[], None] = lambda: None) -> Iterator[Metric]:
    """All families of one moment; what is not known has no sample. ``rest`` is called now and then."""
    yield from _controller(moment)
    yield from _switches(moment)
    yield from _plan(moment)
    if moment.step.fabric is not None:
        yield from _links(moment.step, moment.step.fabric, moment.readings.link_rates(moment.step.fabric), rest)


def _gauge(name: str, text: str, value: float | None = None) -> Metric:
    family = GaugeMetricFamily(f"fairspine_{name}", text)
    if value is not None:
        family.add_metric((), value)
    return family


def _by(
    label: str, name: str, text: str, values: Mapping[str, float], *, counter: bool = False
) -> Metric:  # fmt: skip
    kind = CounterMetricFamily if counter else GaugeMetricFamily
    family = kind(f"fairspine_{name}", text, labels=(label,))
    for each, value in values.items():
        family.add_metric((each,), value)
    return family


def _counted(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"fairspine_{name}", text, value=value)


def _one_of(label: str, name: str, text: str, all_: Sequence[str], now: str) -> Metric:
    return _by(label, name, text, {each: float(each == now) for each in all_})


def _controller(moment: Moment) -> Iterator[Metric]:
    wanted = moment.step.wanted
    build = GaugeMetricFamily("fairspine_build_info", "Which controller this is.", labels=("version", "python"))
    build.add_metric((version("fairspine"), platform.python_version()), 1)
    yield build
    yield _one_of("status", "health", "1 for the status that /healthz tells.", STATUSES, moment.status)
    yield _one_of("mode", "mode", "1 for how plans are enforced.", get_args(Mode), wanted.mode)
    yield _one_of(
        "enforcement", "enforcement", "1 for the kind of rules that plans become.", ENFORCEMENTS, wanted.enforcement
    )
    yield _gauge("store_up", "Whether the store takes changes.", moment.store_works)
    yield _gauge("http_event_streams", "Clients that read the events.", moment.streams)
    yield _gauge("poll_period_seconds", "Time between two polls of a switch; 0: no switch is polled.", moment.period)
    yield _gauge("poll_newest_timestamp_seconds", "When the newest counters came.", moment.measured)
    yield _gauge("jobs", "Jobs that are kept.", len(wanted.jobs))
    yield _gauge("jobs_left_out", "Jobs that are kept and not planned.", len(wanted.left_out))


def _switches(moment: Moment) -> Iterator[Metric]:
    step, connected = moment.step, {report.dpid: report for report in moment.switches}
    names = {**{report.dpid: report.name for report in moment.switches}, **step.names}
    yield _gauge("switches_connected", "Switches that are connected.", len(connected))
    yield _gauge("switches_expected", "Switches that the fabric file names.", moment.expected)
    yield _by(
        "switch", "switch_connected", "Whether a switch is connected.",
        {name: float(dpid in connected) for dpid, name in names.items()},
    )  # fmt: skip
    yield _by(
        "switch", "switch_behind", "Whether a connected switch has not confirmed the newest rules yet.",
        {names[dpid]: float(report.epoch < step.enforced) for dpid, report in connected.items()},
    )  # fmt: skip
    yield _by(
        "switch", "switch_failed", "Whether the rules of a connected switch could not be brought up to date.",
        {names[dpid]: float(bool(report.error)) for dpid, report in connected.items()},
    )  # fmt: skip
    yield _by(
        "switch", "switch_rules", "Rules that a switch should hold.",
        {} if step.rules is None else {name: len(step.rules[dpid]) for dpid, name in names.items()},
    )  # fmt: skip
    short = moment.refusal if moment.refusal is not None and moment.refusal.is_full else None
    yield _by(
        "switch", "switch_rules_short", "Rules (or groups) of the newest plan that a full switch has no room for.",
        {name: short.short if short is not None and short.dpid == dpid else 0 for dpid, name in names.items()},
    )  # fmt: skip
    refused = GaugeMetricFamily(
        "fairspine_plan_refused", "1 for the switch that does not take the newest plan.", labels=("switch", "kind")
    )
    if moment.refusal is not None:
        refused.add_metric((moment.refusal.switch, moment.refusal.kind), 1)
    yield refused
    counts = moment.counts
    yield _counted("rule_changes", "Changes of rules and groups that switches have confirmed.", counts.edits)
    yield _counted("plans_refused", "Plans that some switch did not take.", counts.refusals)
    yield _counted("connections_refused", "Connections turned away, since another switch has their id.", counts.refused)
    yield _by("type", "openflow_errors", "OpenFlow errors that switches have sent.", counts.errors, counter=True)


def _plan(moment: Moment) -> Iterator[Metric]:
    step, plan = moment.step, moment.step.plan
    active = moment.active
    yield _gauge("plan_epoch", "Number of the newest plan.", step.epoch)
    yield _gauge(
        "plan_active_epoch", "Number of the plan that every switch has.", None if active is None else active[0]
    )
    yield _gauge(
        "plan_active", "Whether every connected switch has the newest rules.",
        float(active is not None and active[0] >= step.enforced),
    )  # fmt: skip
    yield _gauge("plan_computed_timestamp_seconds", "When the newest plan was made.", moment.computed_at)
    if plan is None:
        return
    yield _gauge("plan_flows", "Flows of the newest plan.", step.traffic.n_flows)
    yield _gauge("plan_unroutable_flows", "Flows that no live path joins.", len(plan.unroutable))
    yield _gauge("plan_min_speed_ratio", "Speed of the slowest collective.", plan.objective.min_speed)
    yield _gauge("plan_min_level_ratio", "Lowest speed over weight.", plan.objective.min_level)
    yield _gauge("plan_bound_split_ratio", "What no plan beats, flows split or not.", plan.bound.split)
    yield _gauge("plan_bound_single_ratio", "What no plan beats that keeps flows whole.", plan.bound.single)
    yield _gauge("plan_gap_ratio", "Bound over lowest level, minus 1; 0: proved best.", plan.gap)
    yield _by("job", "job_min_speed_ratio", "Speed of a job's slowest collective.", _job_speeds(step, plan))


def _job_speeds(step: Step, plan: Plan) -> dict[str, float]:
    members: dict[str, list[int]] = {}
    for k, row in enumerate(step.traffic.collectives):
        members.setdefault(row.job, []).append(k)
    speeds = {job: slowest(plan, rows) for job, rows in members.items()}
    return {job: speed for job, speed in speeds.items() if speed is not None}


def _links(step: Step, fabric: Fabric, rates: LinkRates, rest: Callable[[], None]) -> Iterator[Metric]:
    names = ("link", "layer", "leaf")
    # One object a link for all of its samples: making them is what takes time.
    labels = [dict(zip(names, values, strict=True)) for values in link_labels(fabric)]
    load = np.zeros(fabric.n_links) if step.plan is None else step.plan.objective.link_load
    drained = np.zeros(fabric.n_links, dtype=np.bool_)
    drained[fabric.first_cable_link :] = np.repeat(drained_cables(step), 2)

    def told(name: str, text: str, values: np.ndarray[tuple[int], np.dtype[np.generic]], *, counter: bool) -> Metric:
        kind = CounterMetricFamily if counter else GaugeMetricFamily
        family = kind(f"fairspine_link_{name}", text, labels=names)
        sample = family.name + ("_total" if counter else "")
        for number, (label, value) in enumerate(zip(labels, values.tolist(), strict=True)):
            if number % AT_ONCE == 0:
                rest()
            # NaN equals nothing, and is what is not known.
            if value == value and not (counter and value == UNKNOWN):
                family.samples.append(Sample(sample, label, value))
        return family

    yield told("bytes", "Bytes sent over a link, as its port counts them.", rates.bytes, counter=True)
    yield told("dropped_packets", "Packets dropped at the port that sends.", rates.dropped, counter=True)
    yield told("errors", "Errors at the port that sends.", rates.errors, counter=True)
    yield told(
        "utilisation_ratio", "Rate over capacity, over the last period.", rates.gbps / fabric.link_gbps, counter=False
    )
    capacity = fabric.link_gbps * BYTES_PER_GBIT
    yield told("capacity_bytes_per_second", "What a link carries at most.", capacity, counter=False)
    yield told("planned_bytes_per_second", "Load at the newest plan's speeds.", load * BYTES_PER_GBIT, counter=False)
    yield told("up", "Whether a link carries traffic.", fabric.link_up.astype(np.int8), counter=False)
    yield told("drained", "Whether a link is drained.", drained.astype(np.int8), counter=False)


def link_labels(fabric: Fabric) -> list[tuple[str, str, str]]:
    """[E] id, layer and leaf of each directed link. Layers: ``from_host``, ``to_host``, ``uplink``, ``downlink``."""
    leaves = [host.leaf for host in fabric.hosts]
    places = [("from_host", leaf) for leaf in leaves] + [("to_host", leaf) for leaf in leaves]
    for cable in fabric.cables:
        places += [("uplink", cable.leaf), ("downlink", cable.leaf)]
    return [(link, layer, leaf) for link, (layer, leaf) in zip(fabric.link_ids, places, strict=True)]
