"""The options of the controller as data; the launcher registers them and is the only reader of the file.

Ryu has options of its own for listening, logging and discovery. People know them, so they keep their names; only
their defaults are ours where Ryu's are unsafe or unfit (``RYU_DEFAULTS``).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from controller.logs.line_formats import FORMATS
from controller.model.choices.enforcement import DEFAULT_ENFORCEMENT
from controller.model.choices.learning import LEARNING
from controller.model.choices.qp_mode import MOST_QPS, QP_MODES
from controller.model.errors import InputError
from controller.model.paces import DEFAULT_MTU, LEAST_MTU, MOST_MTU

if TYPE_CHECKING:
    from controller.model.queue_pairs import QueuePairs
    from controller.routing.base import Options

MOST_HEADROOM = 0.9


@dataclass(frozen=True)
class OptionRange:
    """The values that an option accepts, besides being of its type."""

    choices: tuple[str, ...] = ()
    at_least: float | None = None
    at_most: float | None = None


def _option(default: Any, text: str, **limits: Any) -> Any:
    return field(default=default, metadata={"help": text, "limits": OptionRange(**limits)})


@dataclass(frozen=True)
class Settings:
    """The options: field name = key in the file = option on the command line (there with dashes)."""

    fabric: str = _option("", "fabric file of the intended network; without it, only discovery is used")
    policy: str = _option("fair", "routing policy of the plan")
    seed: int = _option(0, "seed of randomised policies", at_least=0, at_most=2**63 - 1)
    policy_options: str = _option(
        "", "options of the policy, such as rounds=1000000,churn_price=0.1 (docs/explanation/policies.md)"
    )
    ecmp_action: str = _option(
        "bundle",
        "how traffic outside of plans is spread: by Open vSwitch's bundle action, which hashes UDP ports, or by a "
        "standard select group",
        choices=("bundle", "select"),
    )
    enforcement: str = _option(
        DEFAULT_ENFORCEMENT,
        "how switches or hosts follow a plan, unless set on the running controller (docs/how-to/operations.md)",
    )
    label_base: int = _option(
        16000,
        "first MPLS label of the block that enforcements by labels use (docs/how-to/operations.md)",
        at_least=16,
        at_most=2**20 - 1,
    )
    srv6_block: str = _option(
        "fcbb:bb00::/32",
        "block of SRv6 segment ids, the --block by which the routers' configurations were exported; locators of the "
        "fabric file come before it",
    )
    path_address_block: str = _option(
        "10.64.0.0/10",
        "addresses of paths to hosts, the --block by which 'fairspine export path-addresses' configured routers",
    )
    srv6_cables: str = _option(
        "fd00:fab::/48",
        "addresses of the ends of cables of routers, the --cables by which their configurations were exported",
    )
    bgp_sessions: str = _option(
        "",
        "file of BGP sessions to routers, whose routes show which cables work (docs/reference/files.md)",
    )
    probe_burst: int = _option(
        6, "probed ports: probes that a router answers one host at once (Linux: 6)", at_least=1, at_most=10_000
    )
    probe_rate: float = _option(
        1.0, "probed ports: probes that a router answers one host in a second (Linux: 1)", at_least=1e-3, at_most=1e6
    )
    probe_router_rate: float = _option(
        100.0, "probed ports: probes that a router answers all hosts in a second", at_least=1e-3, at_most=1e6
    )
    probe_seconds: float = _option(
        10.0,
        "probed ports: seconds between two checks of a port in use, at least; more where these would take more than "
        "a hundredth of probe_router_rate",
        at_least=0.01,
        at_most=3600,
    )
    probe_last_leaf: str = _option(
        "off",
        "probed ports: on: one more probe of each port shows that it is at the receiver's leaf after as many hops as "
        "the file says (leaves need addresses, too)",
        choices=("off", "on"),
    )
    probe_sampled_rate: float = _option(
        1000.0,
        "probed ports: packets a second that a host may send where routers answer no probes, and sample packets for "
        "sflow_listen; 0: none",
        at_least=0.0,
        at_most=1e6,
    )
    circuit_effort: float = _option(
        1.0,
        "optical fabrics: the search of circuits takes so many times the usual number of steps",
        at_least=0.0,
        at_most=1000.0,
    )
    circuit_paths: int = _option(
        1, "optical fabrics: most paths over which the bytes for a server are divided", at_least=1, at_most=100
    )
    circuit_dead_seconds: float = _option(
        60.0,
        "optical fabrics: seconds for which a port must be down before circuits are planned without it, and up before "
        "it is used again",
        at_least=0.0,
        at_most=1e6,
    )
    debounce_ms: int = _option(20, "milliseconds to wait for more changes before planning", at_least=0, at_most=10_000)
    discovered_host_gbps: float = _option(
        100.0, "capacity (Gbit/s) of host links if there is no fabric file", at_least=1e-6, at_most=1e6
    )
    discovered_uplink_gbps: float = _option(
        100.0, "capacity (Gbit/s) of leaf-spine cables if there is no fabric file", at_least=1e-6, at_most=1e6
    )
    default_qps: int = _option(
        1,
        "QPs of each connection of jobs that do not say (NCCL_IB_QPS_PER_CONNECTION of the cluster)",
        at_least=1,
        at_most=MOST_QPS,
    )
    default_qp_mode: str = _option(
        "split",
        "how these are used: every message is split over all, or whole messages take turns",
        choices=QP_MODES,
    )
    max_flows: int = _option(1_000_000, "maximum number of flows of all jobs together", at_least=1, at_most=10_000_000)
    max_jobs: int = _option(10_000, "maximum number of jobs", at_least=1, at_most=1_000_000)
    max_changes_waiting: int = _option(
        100,
        "maximum number of queued changes; further requests get 503",
        at_least=1,
        at_most=10_000,
    )
    headroom: float = _option(
        0.0,
        "fraction of every link to reserve for traffic outside of plans (storage, checkpoints)",
        at_least=0.0,
        at_most=MOST_HEADROOM,
    )
    starving: str = _option(
        "refuse",
        "refuse: a push after which a class of priority starves on a link where it did not before gets 422 "
        "(docs/reference/files.md#classes); tell: it is planned, and degraded_service says so",
        choices=("refuse", "tell"),
    )
    mtu: int = _option(
        DEFAULT_MTU,
        "bytes of payload in a full packet of jobs, from which the paces of their flows follow "
        "(docs/explanation/objective.md)",
        at_least=LEAST_MTU,
        at_most=MOST_MTU,
    )
    learning: str = _option(
        "observe",
        "observe: infer jobs from their traffic and list them; act: plan them, too; off: accept no reports; a value "
        "that was set on the running controller has precedence",
        choices=LEARNING,
    )
    sflow_listen: str = _option(
        "",
        "IP address, with or without a UDP port (default: 6343), on which sFlow version 5 is received for learning; "
        "empty: none is",
    )
    sflow_agents: str = _option(
        "", "IP addresses or prefixes of the switches that may send sFlow, separated by commas; others are ignored"
    )
    learning_watch: str = _option(
        "off",
        "on: for learning, leaves send the controller a packet of each RoCE flow that is in no plan, and count its "
        "bytes (OpenFlow 1.3 alone; docs/explanation/learning.md)",
        choices=("off", "on"),
    )
    learning_wait_seconds: float = _option(
        20.0,
        "longest time for which a plan that no request asks for waits for an idle time of the learned jobs "
        "(learning = act), since a path that changes while a QP sends reorders its packets; 0: never wait",
        at_least=0.0,
        at_most=600.0,
    )
    replan_seconds: float = _option(
        300.0,
        "seconds between two looks whether another plan pays beside the measured rates of other traffic "
        "(learning = act); 0: never",
        at_least=0.0,
        at_most=86400.0,
    )
    log_format: str = _option(
        "text",
        "lines of the log: text for people, or json, one object each (docs/how-to/operations.md)",
        choices=tuple(FORMATS),
    )
    log_syslog: str = _option(
        "",
        "syslog daemon that gets the log, too (RFC 5424): HOST[:PORT] by UDP, or the path of its socket, such as "
        "/dev/log",
    )
    store: str = _option(
        "",
        "store of jobs, drains, mode and plans: sqlite:///FILE, postgresql://USER@HOST/DATABASE, or memory "
        "(nothing is stored); default: fairspine.db in $STATE_DIRECTORY, else in ~/.local/state/fairspine",
    )
    new_store: bool = _option(
        False, "begin with an empty store if the file of the store has 0 bytes, which is refused otherwise"
    )
    cluster_name: str = _option(
        "",
        "name of the cluster of which this controller is a replica; its store is a PostgreSQL database that all "
        "replicas use (docs/explanation/cluster.md); empty: a single controller",
    )
    cluster_url: str = _option(
        "",
        "URL of this replica's HTTP interface, to which the others pass requests on while it leads; default: that of "
        "wsapi_host and wsapi_port",
    )
    cluster_ca: str = _option(
        "",
        "certificates of the authorities that sign https_cert of the replicas, in PEM; default: those of the system",
    )
    lease: float = _option(
        2.0,
        "seconds without a sign of life after which the leader of a cluster is replaced",
        at_least=0.5,
        at_most=60.0,
    )
    plans_kept: int = _option(1000, "number of plans in the history", at_least=1, at_most=1_000_000)
    tokens: str = _option(
        "",
        "file of tokens of the HTTP interface (fairspine token add); required if it listens on other addresses than "
        "loopback",
    )
    http_hosts: str = _option(
        "",
        "further names of the HTTP interface, for example that of a proxy, "
        "separated by commas, with or without a port (docs/how-to/access.md)",
    )
    https_cert: str = _option(
        "", "certificate of the HTTP interface, with its chain, in PEM; HTTPS is then used instead of HTTP"
    )
    https_key: str = _option("", "key of that certificate, in PEM, without a password")
    agents_ca: str = _option(
        "",
        "certificates of the authorities that sign certificates of hosts, in PEM: an agent with a certificate of the "
        "name of its host needs no token",
    )
    poll_seconds: float = _option(
        5.0,
        "seconds between two readings of a switch's counters (ports, planned rules, groups); 0: never",
        at_least=0.0,
        at_most=3600.0,
    )
    metrics_links: int = _option(
        20_000,
        "most directed links (two for each host and cable) of which each has metrics; in a larger fabric, /metrics has "
        "sums for each switch and layer",
        at_least=0,
    )
    readback_seconds: float = _option(
        5.0,
        "seconds between two comparisons of a switch's rules with the desired rules, with repair (large tables take "
        "longer: docs/how-to/operations.md); 0: never",
        at_least=0.0,
        at_most=3600.0,
    )
    max_switch_connections: int = _option(
        0,
        "maximum number of switch connections, half of them for handshakes; 0: 4,096, or as many "
        "as the limit on open files allows",
        at_least=0,
        at_most=100_000,
    )
    max_http_connections: int = _option(
        0,
        "maximum number of HTTP connections; 0: 4,096, and two more for each host whose agent may follow plans, or as "
        "many as the limit on open files allows",
        at_least=0,
        at_most=1_000_000,
    )
    probes_per_second: int = _option(
        100,
        "maximum number of ARP probes a second, which find hosts and check their locations",
        at_least=1,
        at_most=10_000,
    )
    switch_meters: str = _option(
        "on",
        "limit the packets from switches to the controller by meters, on switches that have meters",
        choices=("on", "off"),
    )
    hosts_per_port: int = _option(
        16, "maximum number of hosts learned at one switch port if there is no fabric file", at_least=1, at_most=1000
    )
    max_discovered_hosts: int = _option(
        10_000, "maximum number of hosts learned if there is no fabric file", at_least=1, at_most=1_000_000
    )


RYU_DEFAULTS: Mapping[str, Any] = {
    # Ryu listens everywhere, and on the old port 6633 as well, unless both are named.
    "ofp_listen_host": "127.0.0.1",
    "ofp_tcp_listen_port": 6653,
    "ofp_ssl_listen_port": 6653,
    "wsapi_host": "127.0.0.1",
    "wsapi_port": 8080,
    # Off in Ryu. Three echoes a second apart without an answer: a silent switch is given up within 5 s.
    "echo_request_interval": 1.0,
    "maximum_unreplied_echo_requests": 3,
}


def settings_from(values: Mapping[str, Any], *, policies: Sequence[str] | None = None) -> Settings:
    """Check values of the right types (as the option parser delivers them) and freeze them.

    Raises:
        InputError: the first value that is not allowed; ``field`` is the option's name.
    """
    settings = Settings(**{option.name: values[option.name] for option in fields(Settings)})
    for option in fields(Settings):
        name, value, limits = option.name, getattr(settings, option.name), option.metadata["limits"]
        if limits.choices and value not in limits.choices:
            raise InputError(f"must be one of {', '.join(limits.choices)}", field=name, value=value)
        if limits.at_least is not None and not value >= limits.at_least:
            raise InputError(f"must be at least {limits.at_least:g}", field=name, value=value)
        if limits.at_most is not None and not value <= limits.at_most:
            raise InputError(f"must be at most {limits.at_most:g}", field=name, value=value)
    if policies is not None and settings.policy not in policies:
        raise InputError(
            f"no policy has this name; there are {', '.join(policies)}", field="policy", value=settings.policy
        )
    _check_enforcement(settings)
    _check_policy_options(settings)
    _check_qps(settings)
    _check_sflow(settings)
    _check_cluster(settings)
    return settings


def options_of(settings: Settings) -> Options:
    """Return the policy's options.

    Raises:
        InputError: there is no such option, or no such value of one.
    """
    # Commands read options' defaults here, and must not wait for compiled code to load.
    from controller.routing.options_text import parse_options

    return parse_options([part for part in settings.policy_options.split(",") if part.strip()])


def default_qps_of(settings: Settings) -> QueuePairs:
    """Return the QPs of each connection of jobs that do not say."""
    from controller.model.queue_pairs import QueuePairs

    (mode,) = (mode for mode in QP_MODES if mode == settings.default_qp_mode)
    return QueuePairs(settings.default_qps, mode)


def _check_enforcement(settings: Settings) -> None:
    from controller.southbound.enforcement.registry import ENFORCEMENTS

    ENFORCEMENTS.named(settings.enforcement).options_of(settings)


def _check_policy_options(settings: Settings) -> None:
    try:
        options_of(settings)
    except InputError as error:
        raise InputError(error.reason, field=f"policy_options: {error.field}", value=error.value) from None


def _check_qps(settings: Settings) -> None:
    from controller.routing.split_check import check_qps

    try:
        check_qps(default_qps_of(settings), [settings.policy], options_of(settings))
    except InputError as error:
        raise InputError(error.reason, field="default_qp_mode", value=error.value) from None


def _check_sflow(settings: Settings) -> None:
    from controller.learning.sampling.sflow_access import parse_agents, parse_listen

    agents = parse_agents(settings.sflow_agents)
    if settings.sflow_listen:
        parse_listen(settings.sflow_listen)
        if not agents:
            raise InputError("must name the switches that may send sFlow", field="sflow_agents", value="")


def _check_cluster(settings: Settings) -> None:
    if settings.cluster_name != settings.cluster_name.strip():
        raise InputError("must not begin or end with a blank", field="cluster_name", value=settings.cluster_name)
    for name in ("cluster_url", "cluster_ca"):
        if getattr(settings, name) and not settings.cluster_name:
            reason = "is only for replicas of a cluster: set cluster_name"
            raise InputError(reason, field=name, value=getattr(settings, name))
    scheme, _, rest = settings.cluster_url.partition("://")
    if settings.cluster_url and (scheme not in ("http", "https") or not rest or "/" in rest):
        raise InputError("must be like https://controller-1:8080", field="cluster_url", value=settings.cluster_url)


def unknown_keys(document: Mapping[str, Mapping[str, Any]], known: Container[tuple[str, str]]) -> list[str]:
    """Return the keys of a parsed configuration file that no option has (``key`` or ``[section] key``).

    ``known`` holds (section, name) pairs. A name with dashes is none: the parser of the file passes over it.
    """
    return [
        key if section == "DEFAULT" else f"[{section}] {key}"
        for section, keys in document.items()
        for key in keys
        if (section, key) not in known
    ]
