"""A snapshot of the controller as Prometheus's metric families (docs/reference/telemetry.md lists them all). Pure."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import get_args

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from controller.core.controller_state import ControllerState
from controller.core.ports.enforcer import AgentCounts, EnforcerCounts, Refusal, SwitchReport
from controller.core.ports.enforcer import connected as connected_keys
from controller.core.ports.host_agents import AgentState
from controller.core.ports.observer import ObserverCounts
from controller.core.speeds.speeds_now import SpeedsNow
from controller.model.choices.enforcement import Mode
from controller.model.choices.learning import LEARNING
from controller.model.plan import Plan
from controller.model.switch_key import SwitchKey
from controller.planning.slowest import slowest
from controller.planning.tenant_rows import tenant_rows
from controller.southbound.discovery.discovery_counts import DiscoveryCounts
from controller.southbound.enforcement.registry import ENFORCEMENTS
from controller.telemetry.instruments import exposition
from controller.telemetry.port_rates import Readings
from controller.telemetry.sample_columns import SampleColumns
from controller.views.cluster import ReplicaCounts
from controller.views.documents import VERSION, Active
from controller.views.host_metrics import host_metrics
from controller.views.link_metrics import link_metrics
from controller.views.port_metrics import port_metrics

MOST_LINKS = 20_000
"""Usual value of ``most_links``: about 160,000 samples, 15 MB."""

STATUSES = ("ok", "starting", "degraded")


@dataclass(frozen=True)
class MetricsSnapshot:
    """All values behind the metrics, taken together on the event loop.

    Attributes:
        status: as ``/healthz`` says, ``degraded_service``: how many reasons for slow jobs it gives.
        speeds: of jobs now.
        measured: when the newest counters came, ``computed_at``: when the plan was made; seconds since 1970.
        expected: how many switches the fabric file names.
        store_works: whether the store takes what it is given.
        replica: of this controller, if it is in a cluster.
        left_alone: switches at which nothing is enforced.
        agents: of hosts, where these carry out plans.
        hosts: what agents of hosts have reported, if the fabric has no more than ``most_links``.
        most_links: the most directed links of a fabric of which each has metrics.
    """

    state: ControllerState
    status: str
    degraded_service: int
    speeds: SpeedsNow
    switches: Sequence[SwitchReport]
    expected: int | None
    active: Active
    computed_at: float
    refusal: Refusal | None
    counts: EnforcerCounts
    observed: ObserverCounts
    discovery: DiscoveryCounts
    store_works: bool
    readings: Readings
    measured: float | None
    period: float
    streams: int
    replica: ReplicaCounts | None = None
    most_links: int = MOST_LINKS
    left_alone: frozenset[SwitchKey] = frozenset()
    agents: AgentCounts | None = None
    hosts: Sequence[AgentState] = ()

    @property
    def follows(self) -> bool:
        """Whether another replica leads: it tells what is known of the network and the plan."""
        return self.replica is not None and self.replica.role == "follower"


def exposed(
    snapshot: MetricsSnapshot, counted: Sequence[Metric], accept: str, rest: Callable[[], None]
) -> tuple[bytes, str]:
    """Return the text of all metrics, of the state and counted ones, and its media type."""
    return exposition(chain(families(snapshot), counted), accept, rest)


def families(snapshot: MetricsSnapshot) -> Iterator[Metric | SampleColumns]:
    """Yield all families of one snapshot; unknown values have no sample."""
    yield from _controller(snapshot)
    if snapshot.replica is not None:
        yield from _cluster(snapshot.replica)
    yield from _switches(snapshot)
    if snapshot.agents is not None:
        yield _by(
            "state",
            "agents",
            "Agents of hosts that the newest plan needs (expected), that are heard, and that have confirmed it.",
            asdict(snapshot.agents),
        )
    yield from host_metrics(snapshot.hosts)
    yield from port_metrics(snapshot.hosts)
    yield from _discovery(snapshot.discovery)
    yield from _plan(snapshot)
    fabric = snapshot.state.fabric
    if fabric is not None and not snapshot.follows:
        connected = connected_keys(snapshot.switches)
        rates = snapshot.readings.link_rates(fabric)
        yield from link_metrics(snapshot.state, fabric, rates, snapshot.most_links, connected)


def _gauge(name: str, text: str, value: float | None = None) -> Metric:
    family = GaugeMetricFamily(f"fairspine_{name}", text)
    if value is not None:
        family.add_metric((), value)
    return family


def _by(label: str, name: str, text: str, values: Mapping[str, float], *, counter: bool = False) -> Metric:
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
    build = GaugeMetricFamily(
        "fairspine_build_info", "Version of the controller and of Python.", labels=("version", "python")
    )
    build.add_metric((VERSION, platform.python_version()), 1)
    yield build
    yield _one_of("status", "health", "1 for the status of /healthz.", STATUSES, snapshot.status)
    yield _gauge(
        "degraded_service", "Reasons that /healthz gives why jobs are, or may be, slow.", snapshot.degraded_service
    )
    yield _one_of("mode", "mode", "1 for the operating mode.", get_args(Mode), desired.mode)
    yield _one_of(
        "enforcement",
        "enforcement",
        "1 for the enforcement (the kind of rules).",
        tuple(ENFORCEMENTS),
        desired.enforcement,
    )
    yield _one_of("learning", "learning", "1 for what becomes of learned jobs.", LEARNING, desired.learning)
    yield _gauge("learned_jobs_planned", "Learned jobs in the plan.", len(desired.learned_traffic))
    yield _gauge("store_up", "1 if the store accepts changes.", snapshot.store_works)
    yield _gauge("http_event_streams", "Clients that read the event stream.", snapshot.streams)
    yield _gauge(
        "poll_period_seconds", "Time between two polls of a switch; 0: switches are not polled.", snapshot.period
    )
    yield _gauge("poll_newest_timestamp_seconds", "Time of the newest counters.", snapshot.measured)
    yield _gauge("jobs", "Stored jobs.", len(desired.jobs))
    yield _gauge("jobs_left_out", "Stored jobs that are not planned.", len(desired.left_out))


def _cluster(replica: ReplicaCounts) -> Iterator[Metric]:
    yield _one_of("role", "cluster_role", "1 for the role of this replica.", ("leader", "follower"), replica.role)
    yield _gauge("cluster_term", "Term of the cluster; it grows with every election.", replica.term)
    yield _counted(
        "cluster_leader_changes", "Changes of the leader that this replica has seen.", replica.leader_changes
    )
    states = {"works": float(replica.works), "missing": float(replica.missing)}
    yield _by("state", "cluster_replicas", "Replicas that the store has heard of lately, and that are missing.", states)
    yield _gauge("cluster_lag_seconds", "Time since the store answered this replica.", replica.lag)
    yield _gauge(
        "cluster_take_over_seconds",
        "Time from the election of this replica until every switch had confirmed its rules.",
        replica.take_over,
    )


def _switches(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    state, connected = snapshot.state, {report.key: report for report in snapshot.switches if report.connected}
    names = {**{report.key: report.name for report in snapshot.switches}, **state.names}
    alone = snapshot.left_alone | {report.key for report in snapshot.switches if not report.connected}
    names = {key: name for key, name in names.items() if key not in alone}
    yield _gauge("switches_connected", "Connected switches.", len(connected))
    yield _gauge("switches_expected", "Switches in the fabric file.", snapshot.expected)
    yield _by(
        "switch",
        "switch_connected",
        "1 if a switch is connected.",
        {name: float(key in connected) for key, name in names.items()},
    )
    yield _by(
        "switch",
        "switch_behind",
        "1 if a connected switch has not confirmed the newest rules yet.",
        {names[key]: float(report.epoch < state.enforced) for key, report in connected.items()},
    )
    yield _by(
        "switch",
        "switch_failed",
        "1 if the rules of a connected switch could not be updated.",
        {names[key]: float(bool(report.error)) for key, report in connected.items()},
    )
    yield _by(
        "switch",
        "switch_rules",
        "Rules that a switch should hold.",
        {} if state.compiled is None else {name: state.compiled.size(key) for key, name in names.items()},
    )
    short = snapshot.refusal if snapshot.refusal is not None and snapshot.refusal.is_full else None
    yield _by(
        "switch",
        "switch_rules_short",
        "Rules (or groups) of the newest plan that a full switch has no room for.",
        {name: short.short if short is not None and short.key == key else 0 for key, name in names.items()},
    )
    refused = GaugeMetricFamily(
        "fairspine_plan_refused", "1 for the switch that refuses the newest plan.", labels=("switch", "kind")
    )
    if snapshot.refusal is not None:
        refused.add_metric((snapshot.refusal.switch, snapshot.refusal.kind), 1)
    yield refused
    counts, observed = snapshot.counts, snapshot.observed
    yield _counted("rule_changes", "Changes of rules and groups that switches have confirmed.", counts.edits)
    yield _by(
        "switch",
        "rules_repaired",
        "Rules and groups that other programs had changed and that were repaired.",
        {name: counts.repaired.get(name, 0) for name in (names[key] for key in connected)},
        counter=True,
    )
    yield _by(
        "switch",
        "switch_contested",
        "1 if another controller seems to manage a connected switch.",
        {names[key]: float(report.name in counts.contested) for key, report in connected.items()},
    )
    yield _counted("plans_refused", "Plans that a switch refused.", counts.refusals)
    yield _counted(
        "connections_refused", "Connections rejected because another switch has the same datapath id.", observed.refused
    )
    yield _by("type", "openflow_errors", "OpenFlow errors sent by switches.", counts.errors, counter=True)
    hosts = observed.hosts
    yield _gauge("hosts_placed", "Hosts whose location was confirmed by a probe.", hosts.placed)
    yield _gauge("host_claims", "Claims to addresses of hosts that are being checked or reported.", hosts.claims)
    yield _counted("host_clashes", "Claims to addresses of hosts that were rejected.", hosts.clashes)
    yield _counted("host_claims_refused", "Claims dropped because their port made too many.", hosts.refused)
    yield _counted("arp_malformed", "Malformed ARP packets.", hosts.malformed)
    yield _by(
        "kind",
        "connections_ended",
        "Connections of switches closed by the controller.",
        observed.ended,
        counter=True,
    )
    yield _by(
        "switch",
        "packet_ins_dropped",
        "Packets from a switch that were dropped unread because they exceeded the budget.",
        observed.dropped_packets,
        counter=True,
    )
    yield _by(
        "outcome",
        "watch_packets",
        "Packets of watch windows that were taken, or dropped unread beyond the budget.",
        observed.watch_packets,
        counter=True,
    )


def _discovery(counts: DiscoveryCounts) -> Iterator[Metric]:
    yield _counted("discovery_packets_sent", "Discovery packets sent.", counts.sent)
    yield _counted("discovery_packets_received", "Discovery packets received.", counts.received)
    yield _by("kind", "discovery_packets_ignored", "LLDP packets ignored.", counts.refused, counter=True)
    yield _gauge(
        "discovery_round_age_seconds", "Time since the end of the last round of discovery packets.", counts.round_age
    )
    yield _gauge("discovery_period_seconds", "Duration of a round of discovery packets.", counts.period)
    yield _gauge("discovery_lag_seconds", "Largest recent delay of the sender.", counts.lag)
    yield _gauge("discovery_ports_silent", "Ports that are up but whose discovery packets are lost.", counts.silent)
    unconfirmed = (
        "Ports that should lead to a switch, and whose discovery packets were neither received nor are known to"
        " be lost. Not a fault: the controller may be slow."
    )
    yield _gauge("discovery_ports_unconfirmed", unconfirmed, counts.unconfirmed)


def _plan(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    state, plan = snapshot.state, snapshot.state.plan
    active = snapshot.active
    yield _gauge("plan_epoch", "Number of the newest plan.", state.epoch)
    yield _gauge(
        "plan_active_epoch",
        "Number of the plan that every switch has confirmed.",
        None if active is None else active[0],
    )
    yield _gauge(
        "plan_active",
        "1 if every connected switch has the newest rules.",
        None if snapshot.follows else float(active is not None and active[0] >= state.enforced),
    )
    yield _gauge("plan_computed_timestamp_seconds", "Time at which the newest plan was computed.", snapshot.computed_at)
    if plan is None or snapshot.follows:
        return
    yield _gauge("plan_flows", "Flows of the newest plan.", state.traffic.n_flows)
    yield _gauge("plan_unroutable_flows", "Flows without a live path.", len(plan.unroutable))
    planned_text = "Planned speed of the slowest collective, 0 if a flow has no path; not the speed now."
    yield _gauge("plan_min_speed_ratio", planned_text, plan.objective.min_speed)
    yield _gauge(
        "plan_min_level_ratio",
        "Lowest planned speed divided by weight, of collectives whose flows all have a path.",
        plan.objective.min_level,
    )
    yield _gauge(
        "plan_bound_split_ratio",
        "Upper bound for all plans of the flows that have a path, with or without splits.",
        plan.bound.split,
    )
    yield _gauge(
        "plan_bound_single_ratio",
        "Upper bound for plans without splits of the flows that have a path.",
        plan.bound.single,
    )
    yield _gauge(
        "plan_gap_ratio",
        "Bound divided by lowest level, minus 1, for the flows that have a path; 0: proved optimal.",
        plan.gap,
    )
    planned = "Speed of a job's slowest collective in the newest plan."
    yield _by("job", "job_min_speed_ratio", planned, _job_speeds(state, plan))
    yield _by(
        "job",
        "job_speed_ratio",
        "Speed of a job's slowest collective now, by the rules that switches hold; no sample: not known.",
        {job: speed for job, speed in snapshot.speeds.jobs.items() if speed is not None},
    )
    yield _by(
        "job",
        "job_paced_flows",
        "Flows of a job that hosts are asked to pace by the newest plan; of a split flow, each path.",
        _paced_flows(state),
    )
    yield from _tenants(state, plan)
    slowest_job = snapshot.speeds.slowest
    yield _gauge(
        "slowest_job_speed_ratio",
        "Speed of the slowest job now; 0: some flow cannot arrive. No sample: not known, or no job uses the network.",
        None if slowest_job is None else slowest_job[1],
    )


def _tenants(state: ControllerState, plan: Plan) -> Iterator[Metric]:
    """Yield what jobs of each tenant have; nothing on a fabric without tenants."""
    if state.fabric is None or not state.fabric.tenants:
        return
    rows = tenant_rows(state.fabric.tenants, state.traffic, plan)
    texts = {
        "weight": ("tenant_weight", "Weight of a tenant in the fabric file."),
        "jobs": ("tenant_jobs", "Jobs of a tenant that send something over the network by the newest plan."),
        "flows": ("tenant_flows", "Flows of a tenant in the newest plan."),
        "min_speed": ("tenant_min_speed_ratio", "Speed of a tenant's slowest collective in the newest plan."),
        "slowdown": (
            "tenant_slowdown_ratio",
            "Expected iteration time of a tenant's jobs over that alone, mean by weight; no sample: not stated.",
        ),
    }
    for field, (name, text) in texts.items():
        yield _by("tenant", name, text, {row["name"]: row[field] for row in rows if row[field] is not None})


def _paced_flows(state: ControllerState) -> dict[str, float]:
    if state.paces is None or state.encoding is None or state.desired.mode != "planned":
        return {}
    traffic = state.traffic
    paced = state.encoding.flow[~np.isnan(state.paces.wire_gbps)]
    counts = np.bincount(traffic.job_index[traffic.collective[paced]], minlength=len(traffic.jobs))
    return dict(zip(traffic.jobs, counts.tolist(), strict=True))


def _job_speeds(state: ControllerState, plan: Plan) -> dict[str, float]:
    members: dict[str, list[int]] = {}
    for k, row in enumerate(state.traffic.collectives):
        members.setdefault(row.job, []).append(k)
    speeds = {job: slowest(plan, rows) for job, rows in members.items()}
    return {job: speed for job, speed in speeds.items() if speed is not None}
