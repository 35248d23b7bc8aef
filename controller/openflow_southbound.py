"""The OpenFlow side of the controller: its parts, and the messages of switches that each of them gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from ssl import SSLContext
from typing import Any

from controller.core.configuration import Configuration
from controller.core.events import EventSink
from controller.core.ports.southbound import SouthboundCounts
from controller.model.fabric import Fabric
from controller.model.network_state import NetworkState, PortId
from controller.southbound.cabling.place_cables import places_of
from controller.southbound.discovery.discovery_counts import DiscoveryCounts
from controller.southbound.discovery.flapping import LOOK_AGAIN
from controller.southbound.discovery.lldp import is_lldp
from controller.southbound.hosts.host_table import HostLimits
from controller.southbound.limits.one_timer import OneTimer
from controller.southbound.limits.packet_load import PacketLoad
from controller.southbound.limits.switch_names import SwitchNames
from controller.southbound.openflow.connections.duplicate_dpid import DpidRegistry
from controller.southbound.openflow.connections.listener import open_places
from controller.southbound.openflow.connections.packet_in import PacketIn
from controller.southbound.openflow.enforcing.installer import Installer
from controller.southbound.openflow.enforcing.roles import Roles
from controller.southbound.openflow.enforcing.session import SwitchState
from controller.southbound.openflow.enforcing.verifier import Verifier
from controller.southbound.openflow.observing.discovery import Discovery
from controller.southbound.openflow.observing.host_finder import HostFinder
from controller.southbound.openflow.observing.prober import Prober
from controller.southbound.openflow.observing.watcher import Watcher
from controller.southbound.openflow.runtime import EventletRuntime
from controller.southbound.rollout.desired_rules import DesiredRules
from controller.southbound.rollout.drift import Deviation
from controller.southbound.rollout.rollout import Refusal
from controller.southbound.rollout.watch_rules import RoceCount, is_watching
from controller.southbound.rules.rule_set import RuleSet, SwitchRules

ECHOES_PER_LEASE = 4
"""Echo requests to each switch in one lease of a cluster: a leader must find out soon that no switch hears it."""


class OpenFlowSouthbound:
    """A ``controller.core.ports.southbound.Southbound`` on OpenFlow connections.

    Attributes:
        names: of the switches.
        installer: of rules, with the connections that it uses.
        network_changed, cable_failed, switches_changed: as the port says.
    """

    def __init__(
        self,
        configuration: Configuration,
        runtime: EventletRuntime,
        events: EventSink,
        *,
        instance: int,
        tls: SSLContext | None,
    ) -> None:
        """Make the parts, each from those before it; Ryu's connections are checked here from now on.

        Args:
            configuration: the options and the fabric file.
            runtime: tasks, waiting and time.
            events: where differences between rules and switches are published.
            instance: of the store, 16 bits; every rule carries it in its cookie.
            tls: how connections are encrypted; ``None``: they are not.
        """
        settings, intended, clock = configuration.settings, configuration.intended, runtime.clock
        self.network_changed, self.cable_failed, self.switches_changed = (runtime.signal() for _ in range(3))
        self._events = events
        self.names = SwitchNames()
        self._dpids = DpidRegistry(
            name=self.names,
            changed=self.switches_changed.set,
            clock=clock,
            intended=frozenset() if intended is None else frozenset(intended.switch_by_dpid),
        )
        self._dpids.guard(open_places(settings.max_switch_connections), tls)
        load = PacketLoad(clock)
        intended_hosts = None if intended is None else places_of(intended).hosts
        self._discovery = Discovery(
            clock,
            intended,
            hosts=intended_hosts,
            limits=HostLimits(settings.hosts_per_port, settings.max_discovered_hosts),
            loud=load.loud,
        )
        self._prober = Prober(
            self._discovery,
            changed=self.network_changed.set,
            told=self.switches_changed.set,
            name=self.names,
            clock=clock,
            dropped=self._dpids.context.dropped,
        )
        self._hosts = HostFinder(
            self._discovery,
            datapath=self._dpids.connection,
            clock=clock,
            probes_per_second=settings.probes_per_second,
            load=load,
            dropped=self._dpids.context.dropped,
            changed=self.network_changed.set,
        )
        self.installer = Installer(
            runtime.offload_in_turn,
            names=self.names,
            settled=self.switches_changed.set,
            was_read=self._was_read,
            clock=clock,
            instance=instance,
            meters=settings.switch_meters == "on",
        )
        self._prober.permission = self._hosts.permission = self.installer.permission
        self._verifier = Verifier(runtime, self.installer, period=settings.readback_seconds, drifted=self._drifted)
        self._watcher = Watcher(runtime, self.installer, self._dpids.context.watched, self.installer.quiet)
        # A single controller sends no request for a role: it stays what every new connection is (equal).
        self._roles: Roles | None = None
        if settings.cluster_name:
            self._roles = Roles(self.installer.permission, admitted=self._admit, name=self.names)
            self._dpids.context.echo_seconds = settings.lease / ECHOES_PER_LEASE
        self._look_again = OneTimer(self.network_changed.set, LOOK_AGAIN, runtime.later, clock)

    def start(self) -> None:
        """Begin to send: for cables, for hosts, and to read switches back."""
        self._hosts.start()
        self._prober.start()
        self._verifier.start()

    def close(self) -> None:
        """Stop. Rules stay, so the network continues to forward."""
        self._verifier.stop()
        self._prober.stop()
        self.installer.close()

    # -- the port ------------------------------------------------------------------------------------------------

    def observe(self) -> NetworkState:
        """Return a snapshot of the network."""
        return self._discovery.snapshot()

    def install(self, rules: DesiredRules) -> None:
        """Bring the switches to these rules; does not block."""
        self.installer.target(rules)

    def expect(self, rules: RuleSet) -> None:
        """Note the rules that switches are likely to hold when they are read, so that this takes less time."""
        self.installer.expected = rules

    def withhold_changes(self, reason: str) -> None:
        """Change no switch from now on, for this reason; empty: change them again."""
        self.installer.permission.withheld = reason

    def lead(self, term: int) -> None:
        """Become master of all switches for this term of a cluster, and change them from now on."""
        assert self._roles is not None
        self._roles.lead(term)

    @property
    def seen_term(self) -> int:
        """The highest term of a cluster that a switch has told."""
        return 0 if self._roles is None else self._roles.seen

    @property
    def lost(self) -> str:
        """Why switches accept this replica of a cluster as their master no longer; empty: they do."""
        return "" if self._roles is None else self._roles.lost

    @property
    def connections(self) -> int:
        """The number of switches that are connected, also to a replica of a cluster that does not lead."""
        return len(self.installer.states()) if self._roles is None else self._roles.connections

    @property
    def silence(self) -> float:
        """Seconds in which this program could read, and nothing came from any switch."""
        context = self._dpids.context
        return context.awake - context.heard

    @property
    def unheard(self) -> float:
        """Seconds since something came from a switch, also those in which this program could not read."""
        context = self._dpids.context
        return context.clock() - context.heard_at

    def look_for_hosts(self, fabric: Fabric | None) -> None:
        """Look for the hosts of this fabric that are not heard."""
        self._hosts.fabric = fabric

    def watch_flows(self, leaves: Sequence[int], hosts: Set[int]) -> Sequence[RoceCount]:
        """Watch for RoCEv2 flows that are in no plan; return what was counted since the last call."""
        return self._watcher.step(leaves, hosts)

    def stop_watching(self) -> None:
        """Remove the rules of ``watch_flows`` from the switches."""
        self._watcher.stop()

    def switches(self) -> list[SwitchState]:
        """Return the state of each connected switch, by datapath id."""
        return self.installer.states()

    @property
    def refusal(self) -> Refusal | None:
        """Why the newest rules are not on the switches; ``None`` while none of them has refused them."""
        return self.installer.refusal

    @property
    def next_try(self) -> float | None:
        """Seconds until refused rules are tried again."""
        return self.installer.next_try

    def deviations(self) -> dict[int, Deviation]:
        """Return how the rules of switches, as read back, deviate from those that they confirmed."""
        return self._verifier.deviations()

    def notices(self) -> list[str]:
        """Return the faults of connections, of discovery and of rules that were read back, for people."""
        return [*self._dpids.notices(), *self._prober.notices(), *self._verifier.reasons()]

    def counts(self) -> SouthboundCounts:
        """Return what has happened since the start."""
        shared = self._dpids.context
        return SouthboundCounts(
            edits=self.installer.edits,
            refusals=self.installer.refusals,
            refused=self._dpids.refused,
            errors=dict(self.installer.errors),
            repaired=dict(self._verifier.repaired),
            contested=tuple(self._verifier.contested()),
            ended=dict(shared.ends),
            dropped_packets={self.names(dpid): count for dpid, count in shared.dropped.items()},
            watch_packets={"taken": shared.watched.taken, "dropped": shared.watched.dropped},
            hosts=self._hosts.counts(),
        )

    def discovery(self) -> DiscoveryCounts:
        """Return what link discovery has done, and how it goes."""
        return self._prober.counts()

    # -- messages of switches --------------------------------------------------------------------------------------

    def connected(self, datapath: Any) -> None:
        """Begin with a switch that has connected and has told its ports."""
        if self._roles is None:
            self._admit(datapath)
        else:
            self._roles.connected(datapath)

    def _admit(self, datapath: Any) -> None:
        """Begin with a switch: read it back, change it, and have it send discovery packets."""
        self._tell(self._discovery.switch_entered(datapath.id, list(datapath.ports.values())))
        self._prober.connected(datapath)
        self.installer.connected(datapath)

    def _datapath(self, dpid: int) -> Any:
        """Return the connection of a switch, ``None`` where there is none."""
        return self.installer.datapath(dpid) if self._roles is None else self._roles.datapath(dpid)

    def disconnected(self, datapath: Any) -> bool:
        """End with a switch whose connection has ended; return ``False`` if a newer one has taken its place."""
        if datapath.id is None or self._datapath(datapath.id) is not datapath:
            return False
        if self._roles is not None:
            self._roles.disconnected(datapath.id)
        if self.installer.datapath(datapath.id) is not datapath:
            return True
        self.installer.disconnected(datapath.id, datapath)
        self._prober.disconnected(datapath.id)
        self._tell(self._discovery.switch_left(datapath.id))
        return True

    def _was_read(self, dpid: int, held: SwitchRules) -> None:
        """Use the rules that a switch held when it connected; from here on it sends discovery packets."""
        if len(held) > 1 and self._dpids.is_known(dpid):
            self._discovery.holds_rules()
        self._prober.listens(dpid)
        self._hosts.was_read(dpid, held)

    def _drifted(self, text: str, details: Mapping[str, Any]) -> None:
        """Publish that a switch does not hold what it has confirmed."""
        self._events.append("drift", text=text, **details)

    def replied(self, message: Any) -> None:
        """Pass a reply to the exchange that waits for it."""
        if self._roles is not None:
            self._roles.replied(message)
        exchange = self.installer.exchange(message.datapath)
        if exchange is not None:
            exchange.replied(message)

    def barrier_replied(self, message: Any) -> None:
        """Pass a reply to a barrier request to the exchange that waits for it, and to discovery."""
        self.replied(message)
        self._prober.answered(message.datapath, message.xid)

    def flow_removed(self, message: Any) -> None:
        """Try refused rules again: a removed rule leaves room in the switch."""
        self.installer.may_have_room(message.datapath.id)

    def failed(self, message: Any) -> None:
        """Pass an OpenFlow error to the changes that it answers."""
        if self._roles is not None:
            self._roles.failed(message)
        if not self._watcher.refused(message):
            self.installer.refused(message)

    def experimenter(self, message: Any) -> None:
        """Pass a message of an extension to the roles: it may say that another controller has become master."""
        if self._roles is not None:
            self._roles.experimenter(message)

    def port_changed(self, datapath: Any, port: Any, *, gone: bool) -> None:
        """Update rules and discovery after a port has come, changed or (``gone``) was removed."""
        if self.installer.datapath(datapath.id) is not datapath:
            # It is not admitted yet; then, the connection has its present ports.
            return
        self.installer.ports_changed(datapath)
        at = PortId(datapath.id, port.port_no)
        had_cable = self._discovery.leads_to_switch(at)
        if gone:
            changed = self._discovery.port_gone(datapath.id, port.port_no)
        else:
            changed = self._discovery.port_changed(datapath.id, port)
        if had_cable and not self._discovery.leads_to_switch(at):
            self.cable_failed.set()
        self._tell(changed)
        if self._discovery.flapping():
            self._look_again()

    def packet(self, dpid: int, packet: PacketIn) -> None:
        """Handle a packet that a switch has sent to the controller."""
        if self._roles is not None and self.installer.datapath(dpid) is None:
            # The leader's. A new connection gets packets until the switch has made it a slave.
            return
        if is_watching(packet.cookie):
            self._watcher.packet(dpid, packet.data)
        elif is_lldp(packet.data):
            self._prober.packet(dpid, packet)
        else:
            self._hosts.packet(dpid, packet)

    def _tell(self, changed: bool) -> None:
        if changed:
            self.network_changed.set()
