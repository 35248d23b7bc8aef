"""The OpenFlow side of the controller: its parts, and the messages of switches that each of them gets.

``observer`` and ``enforcer`` are the ports to them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from ssl import SSLContext
from typing import Any

from controller.core.configuration import Configuration
from controller.core.events import EventSink
from controller.model.network_state import PortId
from controller.openflow_enforcer import OpenFlowEnforcer
from controller.openflow_observer import OpenFlowObserver
from controller.southbound.cabling.place_cables import places_of
from controller.southbound.discovery.flapping import LOOK_AGAIN
from controller.southbound.discovery.lldp import is_lldp
from controller.southbound.enforcement.openflow_rules import OpenFlowCompiler
from controller.southbound.hosts.host_table import HostLimits
from controller.southbound.left_alone import left_alone
from controller.southbound.limits.one_timer import OneTimer
from controller.southbound.limits.packet_load import PacketLoad
from controller.southbound.limits.switch_names import SwitchNames
from controller.southbound.openflow.connections.duplicate_dpid import DpidRegistry
from controller.southbound.openflow.connections.listener import open_places
from controller.southbound.openflow.connections.packet_in import PacketIn
from controller.southbound.openflow.enforcing.installer import Installer
from controller.southbound.openflow.enforcing.roles import Roles
from controller.southbound.openflow.enforcing.verifier import Verifier
from controller.southbound.openflow.observing.discovery import Discovery
from controller.southbound.openflow.observing.host_finder import HostFinder
from controller.southbound.openflow.observing.prober import Prober
from controller.southbound.openflow.observing.watcher import Watcher
from controller.southbound.openflow.runtime import EventletRuntime
from controller.southbound.rollout.watch_rules import is_watching
from controller.southbound.rules.rule_set import SwitchRules

LOG = logging.getLogger("fairspine.southbound")

ECHOES_PER_LEASE = 4
"""Echo requests to each switch in one lease of a cluster: a leader must find out soon that no switch hears it."""


class OpenFlowSouthbound:
    """Makes the parts that observe and that enforce by OpenFlow, which share the connections.

    Attributes:
        names: of the switches.
        installer: of rules, with the connections that it uses.
        observer, enforcer: what the service needs of the parts.
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
        network_changed, cable_failed, notices_changed, switches_changed = (runtime.signal() for _ in range(4))
        self._network_changed, self._cable_failed = network_changed.set, cable_failed.set
        self._events = events
        self.names = SwitchNames()
        self._dpids = DpidRegistry(
            name=self.names,
            changed=notices_changed.set,
            clock=clock,
            intended=None if intended is None else intended.datapath_ids,
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
            changed=network_changed.set,
            noticed=notices_changed.set,
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
            changed=network_changed.set,
        )
        self._switches_changed = switches_changed.set
        self._hears_settled: list[Callable[[], None]] = []
        self.installer = Installer(
            runtime.offload_in_turn,
            names=self.names,
            settled=self._settled,
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
        self._look_again = OneTimer(network_changed.set, LOOK_AGAIN, runtime.later, clock)
        self._routers = () if intended is None else intended.routers
        self.observer = OpenFlowObserver(
            network_changed,
            cable_failed,
            notices_changed,
            self._discovery,
            self._prober,
            self._hosts,
            self._watcher,
            self._dpids,
            self.names,
        )
        self.enforcer = OpenFlowEnforcer(
            OpenFlowCompiler(settings.ecmp_action, settings),
            switches_changed,
            self.installer,
            self._verifier,
            self._roles,
            self._dpids.context,
        )

    def _settled(self) -> None:
        self._switches_changed()
        for hears in self._hears_settled:
            hears()

    def tell_settled(self, hears: Callable[[], None]) -> None:
        """Call this whenever some switch has reached or lost its target, or refused it."""
        self._hears_settled.append(hears)

    def start(self) -> None:
        """Begin to send: for cables, for hosts, and to read switches back."""
        if self._routers:
            LOG.warning("%s", left_alone(switch.name for switch in self._routers))
        self._hosts.start()
        self._prober.start()
        self._verifier.start()

    def close(self) -> None:
        """Stop. Rules stay, so the network continues to forward."""
        self._verifier.stop()
        self._prober.stop()
        self.installer.close()

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
            self._cable_failed()
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
            self._network_changed()
