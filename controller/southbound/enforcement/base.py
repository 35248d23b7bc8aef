"""An enforcement: everything that makes one way to enforce plans differ from the others, as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from controller.model.assignment import Assignment
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.ip_versions import check_ipv4
from controller.model.paces import Paces
from controller.model.switch_key import SwitchKey
from controller.model.traffic import Traffic
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.southbound.enforcement.host_plans import HostPlans
from controller.southbound.enforcement.port_blocks import PortBlocks, port_blocks
from controller.southbound.forwarding.base import base_builders
from controller.southbound.rules.rule import Rule
from controller.southbound.rules.rule_set import RuleBuilder, RuleSet

OptionValues = Mapping[str, Any]
"""Options of the controller by name (``controller/config.py``)."""

NO_OPTIONS: OptionValues = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class CompiledFlows:
    """The blocks of flows that were compiled before, and all rules of the switches then."""

    blocks: PortBlocks
    rules: RuleSet


@dataclass(frozen=True, eq=False)
class RuleInputs:
    """What the rules, or the plans of hosts, of a plan are compiled from.

    Attributes:
        fabric: with the port numbers that are known; a cable or host without them gets no rule.
        traffic: the flows of all jobs.
        encoding: source ports and paths of their pieces, made by the same enforcement.
        usable: the fabric without the cables that are drained.
        ecmp_action: ``bundle`` or ``select``: how traffic outside of plans is spread.
        learn: send ARP for unknown targets to the controller.
        options: those that the enforcement needs; one that is left out has the default of the enforcement.
        paces: of the rows of the encoding, for hosts; ``None``: not known.
        before: what was compiled for other flows, with everything else equal, by an enforcement that is
            ``incremental``; ``None``: there is no such thing.
    """

    fabric: Fabric
    traffic: Traffic
    encoding: FlowEncoding
    usable: Fabric
    ecmp_action: str = "bundle"
    learn: bool = False
    options: OptionValues = field(default_factory=dict)
    paces: Paces | None = None
    before: CompiledFlows | None = None

    @cached_property
    def blocks(self) -> PortBlocks:
        """The blocks of the flows, each of which is one rule on a switch."""
        return port_blocks(self.traffic, self.encoding)

    def builders(self) -> dict[SwitchKey, RuleBuilder]:
        """Return a builder of each switch, by key, with the base rules or those of ``before``.

        ``rules_of`` makes the rules of them.
        """
        base = base_builders(self.fabric, usable=self.usable, ecmp_action=self.ecmp_action, learn=self.learn)
        if self.before is None:
            return base
        return {key: RuleBuilder(self.before.rules[key]) for key in base}


Segments = Callable[[int, int, int], Mapping[str, Any] | None]
"""Returns, of a sending and a receiving host and the number of the path between their leaves, the address that packets
carry (``carrier``), and its ids in order with the node that consumes each (``ids``: ``id`` in hexadecimal digits,
``node``); ``None``: packets carry no such address."""


def no_segments(_fabric: Fabric, _options: OptionValues) -> Segments:
    """Return that packets carry no ids of nodes."""
    return lambda _src, _dst, _path: None


def _accept(_fabric: Fabric, _options: OptionValues) -> None:
    """Refuse no fabric."""


def _no_labels(_fabric: Fabric, _src_leaf: int, _dst_leaf: int, _path: int, _options: OptionValues) -> tuple[int, ...]:
    """Return no labels."""
    return ()


def _usual(_fabric: Fabric, _host: int, _path: int, _options: OptionValues) -> None:
    """Return no address."""


@dataclass(frozen=True)
class Enforcement:
    """A way to make switches or hosts follow a plan. All functions are pure: equal arguments give equal results.

    Attributes:
        name: the name by which users, documents and the store refer to it.
        text: what selects the path of a flow, in one line, for people who choose an enforcement.
        hosts: what hosts must do, in one line.
        encode: returns the source ports of all flows and of the pieces of split ones, by which packets are told apart;
            its rows are those of the assignment. Raises ``InputError`` for flows that it cannot enforce.
        compile: returns the rules of every switch. ``controller/southbound/rules/priorities.py`` has the bands of
            priorities: rollouts add rules of the band ``LABEL`` first, and leave out those of the bands ``FLOW``,
            ``CLASS``, ``CLASS_EXCEPTION`` and ``LABEL`` at switches that have no room for them.
        is_planned: returns whether a rule that a leaf holds makes a planned flow follow its path, whatever installed
            it.
        check: raises ``InputError``, which names the field, for a fabric or an option that it cannot enforce plans on.
        labels: returns the MPLS labels that packets carry between two leaves on a path, the outermost first.
        segments: returns what addresses packets carry that name their path, on a fabric.
        growth: bytes by which packets grow at most between leaves: the MTU of switch ports must have room for them.
        options: names of the options of the controller that ``check``, ``compile`` and ``labels`` read.
        chooses_ports: whether the controller must be free to choose the source port of every flow, since the port
            selects the path. Jobs that name ports, or whose ports are unknown, are refused, and learned jobs are not
            planned.
        tcp_by_hosts: whether hosts choose the source ports of TCP connections when these are made. Then TCP without
            ports is supported, whatever ``chooses_ports``: all of it that one host sends another has one path.
        incremental: whether, of its rules, only those that ``place_flows`` adds depend on flows, and all of ``compile``
            begins with ``RuleInputs.builders``. Then a plan on the same fabric compiles only the flows that changed.
        watchable: whether rules may count flows that are in no plan (watch windows) without a change of their paths.
        rule_port: returns the lowest of the source ports that have one rule at a leaf with the given one, whatever the
            hosts; ``None``: rules of planned flows are of two hosts.
        learns_ports: whether agents of hosts find the source ports: those of the encoding are then numbers of flows,
            and hosts send from the ports that agents have reported.
        router_export: the command that writes the configuration by which routers carry out its plans, too: one that
            depends on the fabric alone; empty: there is none. The controller does not see whether they have it.
        needs_routers: whether it is for fabrics of routers alone, so that no switch gets a rule.
        destination: returns the address by which a sender chooses a path (host and path are arguments); ``None``: it is
            the usual one of the receiver.
        carries_ipv6: whether hosts may have IPv6 addresses.
        spreads: whether packets of one flow may take several paths at once: hosts spread them by the weights of paths.
            Jobs with ``order: any`` are refused where it is not so.
        host_plans: returns what hosts are to do, where they carry out plans and no rule of a switch depends on one;
            ``None``: the switches carry out plans.
    """

    name: str
    text: str
    hosts: str
    encode: Callable[[Fabric, Traffic, Assignment], FlowEncoding]
    compile: Callable[[RuleInputs], RuleSet]
    is_planned: Callable[[Rule], bool]
    check: Callable[[Fabric, OptionValues], None] = _accept
    labels: Callable[[Fabric, int, int, int, OptionValues], tuple[int, ...]] = _no_labels
    segments: Callable[[Fabric, OptionValues], Segments] = no_segments
    growth: int = 0
    options: tuple[str, ...] = ()
    chooses_ports: bool = False
    tcp_by_hosts: bool = False
    incremental: bool = False
    watchable: bool = True
    rule_port: Callable[[Fabric, int], int] | None = None
    learns_ports: bool = False
    router_export: str = ""
    needs_routers: bool = False
    destination: Callable[[Fabric, int, int, OptionValues], str | None] = _usual
    carries_ipv6: bool = False
    spreads: bool = False
    host_plans: Callable[[RuleInputs], HostPlans] | None = None

    @property
    def by_hosts(self) -> bool:
        """Whether hosts carry out its plans, and not switches."""
        return self.host_plans is not None

    def check_fabric(self, fabric: Fabric, options: OptionValues) -> None:
        """See whether plans on a fabric can be enforced.

        Raises:
            InputError: they cannot, or not with these options; ``check`` says more.
        """
        if not self.carries_ipv6:
            check_ipv4(fabric, f"{self.name} enforcement")
        self.check(fabric, options)

    def options_of(self, settings: object) -> OptionValues:
        """Return the values of the options that it needs.

        Args:
            settings: the options of the controller, as attributes.

        Raises:
            InputError: the controller has no such option.
        """
        for name in self.options:
            if not hasattr(settings, name):
                raise InputError(
                    f"needs the option {name}, which the controller does not have", field="enforcement", value=self.name
                )
        return {name: getattr(settings, name) for name in self.options}
