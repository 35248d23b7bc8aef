"""A snapshot of the controller as Prometheus's metric families (docs/reference/telemetry.md lists them all). Pure."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import get_args

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from controller.core.controller_state import ControllerState
from controller.core.ports.southbound import SouthboundCounts, SwitchReport
from controller.model.enforcement import ENFORCEMENTS, Mode
from controller.model.fabric import Fabric
from controller.model.plan import Plan
from controller.planning.plan_document import slowest
from controller.southbound.discovery_counts import DiscoveryCounts
from controller.southbound.rollout import Refusal
from controller.telemetry.instruments import AT_ONCE, exposition
from controller.telemetry.port_rates import UNKNOWN, LinkRates, Readings
from controller.views.documents import VERSION, Active, drained_cables

BYTES_PER_GBIT = 1e9 / 8
STATUSES = ("ok", "starting", "degraded")


@dataclass(frozen=True)
class MetricsSnapshot:
    """All values behind the metrics, taken together on the event loop.

    Attributes:
        status: as ``/healthz`` says, ``degraded_service``: how many reasons for slow jobs it gives.
        confirmed: whether every switch that forwards has the newest rules.
        measured: when the newest counters came, ``computed_at``: when the plan was made; seconds since 1970.
        expected: how many switches the fabric file names.
        store_works: whether the store takes what it is given.
    """

    state: ControllerState
    status: str
    degraded_service: int
    confirmed: bool
    switches: Sequence[SwitchReport]
    expected: int | None
    active: Active
    computed_at: float
    refusal: Refusal | None
    counts: SouthboundCounts
    discovery: DiscoveryCounts
    store_works: bool
    readings: Readings
    measured: float | None
    period: float
    streams: int


def exposed(
    snapshot: MetricsSnapshot, counted: Sequence[Metric], accept: str, rest: Callable[[], None]
) -> tuple[bytes, str]:  # fmt: skip
    """Return the text of all metrics, of the state and counted ones, and its media type."""
    return exposition(chain(families(snapshot, rest), counted), accept, rest)


def families(snapshot: MetricsSnapshot, rest: Callable[[], None] = lambda: None) -> Iterator[Metric]:
    """Yield all families of one snapshot; unknown values have no sample. ``rest`` is called now and then."""
    yield from _controller(snapshot)
    yield from _switches(snapshot)
    yield from _discovery(snapshot.discovery)
    yield from _plan(snapshot)
    if snapshot.state.fabric is not None:
        yield from _links(
            snapshot.state, snapshot.state.fabric, snapshot.readings.link_rates(snapshot.state.fabric), rest
        )


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


def _controller(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    desired = snapshot.state.desired
    build = GaugeMetricFamily("fairspine_build_info", "Which controller this is.", labels=("version", "python"))
    build.add_metric((VERSION, platform.python_version()), 1)
    yield build
    yield _one_of("status", "health", "1 for the status that /healthz tells.", STATUSES, snapshot.status)
    yield _gauge(
        "degraded_service", "Reasons that /healthz gives why jobs are, or may be, slow.", snapshot.degraded_service
    )
    yield _one_of("mode", "mode", "1 for how plans are enforced.", get_args(Mode), desired.mode)
    yield _one_of(
        "enforcement", "enforcement", "1 for the kind of rules that plans become.", ENFORCEMENTS, desired.enforcement
    )
    yield _gauge("store_up", "Whether the store takes changes.", snapshot.store_works)
    yield _gauge("http_event_streams", "Clients that read the events.", snapshot.streams)
    yield _gauge("poll_period_seconds", "Time between two polls of a switch; 0: no switch is polled.", snapshot.period)
    yield _gauge("poll_newest_timestamp_seconds", "When the newest counters came.", snapshot.measured)
    yield _gauge("jobs", "Jobs that are kept.", len(desired.jobs))
    yield _gauge("jobs_left_out", "Jobs that are kept and not planned.", len(desired.left_out))


def _switches(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    state, connected = snapshot.state, {report.dpid: report for report in snapshot.switches}
    names = {**{report.dpid: report.name for report in snapshot.switches}, **state.names}
    yield _gauge("switches_connected", "Switches that are connected.", len(connected))
    yield _gauge("switches_expected", "Switches that the fabric file names.", snapshot.expected)
    yield _by(
        "switch", "switch_connected", "Whether a switch is connected.",
        {name: float(dpid in connected) for dpid, name in names.items()},
    )  # fmt: skip
    yield _by(
        "switch", "switch_behind", "Whether a connected switch has not confirmed the newest rules yet.",
        {names[dpid]: float(report.epoch < state.enforced) for dpid, report in connected.items()},
    )  # fmt: skip
    yield _by(
        "switch", "switch_failed", "Whether the rules of a connected switch could not be brought up to date.",
        {names[dpid]: float(bool(report.error)) for dpid, report in connected.items()},
    )  # fmt: skip
    yield _by(
        "switch", "switch_rules", "Rules that a switch should hold.",
        {} if state.rules is None else {name: len(state.rules[dpid]) for dpid, name in names.items()},
    )  # fmt: skip
    short = snapshot.refusal if snapshot.refusal is not None and snapshot.refusal.is_full else None
    yield _by(
        "switch", "switch_rules_short", "Rules (or groups) of the newest plan that a full switch has no room for.",
        {name: short.short if short is not None and short.dpid == dpid else 0 for dpid, name in names.items()},
    )  # fmt: skip
    refused = GaugeMetricFamily(
        "fairspine_plan_refused", "1 for the switch that does not take the newest plan.", labels=("switch", "kind")
    )
    if snapshot.refusal is not None:
        refused.add_metric((snapshot.refusal.switch, snapshot.refusal.kind), 1)
    yield refused
    counts = snapshot.counts
    yield _counted("rule_changes", "Changes of rules and groups that switches have confirmed.", counts.edits)
    yield _by(
        "switch", "rules_repaired", "Rules and groups that others had changed, and that were put right.",
        {name: counts.repaired.get(name, 0) for name in (names[dpid] for dpid in connected)}, counter=True,
    )  # fmt: skip
    yield _by(
        "switch", "switch_contested", "Whether another controller seems to manage a connected switch, too.",
        {names[dpid]: float(report.name in counts.contested) for dpid, report in connected.items()},
    )  # fmt: skip
    yield _counted("plans_refused", "Plans that some switch did not take.", counts.refusals)
    yield _counted("connections_refused", "Connections turned away, since another switch has their id.", counts.refused)
    yield _by("type", "openflow_errors", "OpenFlow errors that switches have sent.", counts.errors, counter=True)
    hosts = counts.hosts
    yield _gauge("hosts_placed", "Hosts that have answered a probe where they are.", hosts.placed)
    yield _gauge("host_claims", "Claims to hosts' addresses that are being checked or told.", hosts.claims)
    yield _counted("host_clashes", "Claims to hosts' addresses that were not believed.", hosts.clashes)
    yield _counted(
        "host_claims_refused", "Claims for which there was no room: their port makes too many.", hosts.refused
    )
    yield _counted("arp_malformed", "ARP packets that were not sound.", hosts.malformed)
    yield _by(
        "kind", "connections_ended", "Connections of switches that the controller has ended.", counts.ended,
        counter=True,
    )  # fmt: skip
    yield _by(
        "switch", "packet_ins_dropped", "Packets from a switch that were dropped unread, since they were too many.",
        counts.dropped_packets, counter=True,
    )  # fmt: skip


def _discovery(counts: DiscoveryCounts) -> Iterator[Metric]:
    yield _counted("discovery_packets_sent", "Discovery packets that were sent.", counts.sent)
    yield _counted("discovery_packets_received", "Discovery packets that came back.", counts.received)
    yield _by("kind", "discovery_packets_ignored", "LLDP packets that were not believed.", counts.refused, counter=True)
    yield _gauge("discovery_round_age_seconds", "Time since every port was asked last.", counts.round_age)
    yield _gauge("discovery_period_seconds", "Time in which every port is asked once.", counts.period)
    yield _gauge("discovery_lag_seconds", "How late the sender was at most, lately.", counts.lag)
    yield _gauge("discovery_ports_silent", "Ports that are up and whose packets are lost.", counts.silent)
    unconfirmed = (
        "Ports that should lead to a switch, whose discovery packets have neither come through nor are known to"
        " be lost. No fault: the controller may be behind."
    )
    yield _gauge("discovery_ports_unconfirmed", unconfirmed, counts.unconfirmed)


def _plan(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    state, plan = snapshot.state, snapshot.state.plan
    active = snapshot.active
    yield _gauge("plan_epoch", "Number of the newest plan.", state.epoch)
    yield _gauge(
        "plan_active_epoch", "Number of the plan that every switch has.", None if active is None else active[0]
    )
    yield _gauge(
        "plan_active", "Whether every connected switch has the newest rules.",
        float(active is not None and active[0] >= state.enforced),
    )  # fmt: skip
    yield _gauge("plan_computed_timestamp_seconds", "When the newest plan was made.", snapshot.computed_at)
    if plan is None:
        return
    yield _gauge("plan_flows", "Flows of the newest plan.", state.traffic.n_flows)
    yield _gauge("plan_unroutable_flows", "Flows that no live path joins.", len(plan.unroutable))
    yield _gauge("plan_min_speed_ratio", "Speed of the slowest collective.", plan.objective.min_speed)
    yield _gauge("plan_min_level_ratio", "Lowest speed over weight.", plan.objective.min_level)
    yield _gauge("plan_bound_split_ratio", "What no plan beats, flows split or not.", plan.bound.split)
    yield _gauge("plan_bound_single_ratio", "What no plan beats that keeps flows whole.", plan.bound.single)
    yield _gauge("plan_gap_ratio", "Bound over lowest level, minus 1; 0: proved best.", plan.gap)
    planned = "Speed of a job's slowest collective in the newest plan."
    yield _by("job", "job_min_speed_ratio", planned, _job_speeds(state, plan))
    yield _by(
        "job", "job_speed_ratio", "Speed of a job's slowest collective by the rules that switches hold.",
        (state.speeds.speed or {}) if snapshot.confirmed else {},
    )  # fmt: skip


def _job_speeds(state: ControllerState, plan: Plan) -> dict[str, float]:
    members: dict[str, list[int]] = {}
    for k, row in enumerate(state.traffic.collectives):
        members.setdefault(row.job, []).append(k)
    speeds = {job: slowest(plan, rows) for job, rows in members.items()}
    return {job: speed for job, speed in speeds.items() if speed is not None}


def _links(state: ControllerState, fabric: Fabric, rates: LinkRates, rest: Callable[[], None]) -> Iterator[Metric]:
    names = ("link", "layer", "leaf")
    # One object a link for all of its samples: making them is what takes time.
    labels = [dict(zip(names, values, strict=True)) for values in link_labels(fabric)]
    load = np.zeros(fabric.n_links) if state.plan is None else state.plan.objective.link_load
    drained = np.zeros(fabric.n_links, dtype=np.bool_)
    drained[fabric.first_cable_link :] = np.repeat(drained_cables(state), 2)

    def told(name: str, text: str, values: np.ndarray[tuple[int], np.dtype[np.generic]], *, counter: bool) -> Metric:
        kind = CounterMetricFamily if counter else GaugeMetricFamily
        family = kind(f"fairspine_link_{name}", text, labels=names)
        sample = family.name + ("_total" if counter else "")
        for number, (label, value) in enumerate(zip(labels, values.tolist(), strict=True)):
            if number % AT_ONCE == 0:
                rest()
            # NaN stands for unknown, and does not equal itself.
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
    """Return id, layer and leaf of each directed link [E]; the layers are from_host, to_host, uplink and downlink."""
    leaves = [host.leaf for host in fabric.hosts]
    places = [("from_host", leaf) for leaf in leaves] + [("to_host", leaf) for leaf in leaves]
    for cable in fabric.cables:
        places += [("uplink", cable.leaf), ("downlink", cable.leaf)]
    return [(link, layer, leaf) for link, (layer, leaf) in zip(fabric.link_ids, places, strict=True)]
