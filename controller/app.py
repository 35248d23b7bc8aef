"""The Ryu application: event handlers that delegate, nothing else. Run it by ``ryu-manager controller.app``."""

from __future__ import annotations

from typing import Any, ClassVar

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from ryu.ofproto import ofproto_v1_3

from controller import startup
from controller.config import default_qps_of
from controller.core.ports.southbound import Southbound, SouthboundCounts
from controller.rest.preview_request import read_preview, read_survival
from controller.rest.wsgi import HttpServer
from controller.service.admission import Admission
from controller.service.measurements import Measurements
from controller.service.service import Service
from controller.service.spacing import OneTimer, Spaced
from controller.service.systemd import Watchdog
from controller.southbound.flapping import LOOK_AGAIN
from controller.southbound.host_table import HostLimits
from controller.southbound.intended_hosts import IntendedHosts
from controller.southbound.lldp import is_lldp
from controller.southbound.openflow.discovery import Discovery
from controller.southbound.openflow.duplicate_dpid import DpidRegistry
from controller.southbound.openflow.hosts import HostFinder
from controller.southbound.openflow.installer import Installer
from controller.southbound.openflow.listener import open_places
from controller.southbound.openflow.packet_in import PacketIn, handle_with
from controller.southbound.openflow.prober import Prober
from controller.southbound.openflow.runtime import EventletRuntime
from controller.southbound.openflow.verifier import Verifier
from controller.southbound.packet_load import PacketLoad
from controller.southbound.rules import SwitchRules
from controller.telemetry.instruments import Instruments
from controller.telemetry.poller import Poller
from controller.telemetry.port_rates import Readings
from controller.telemetry.snapshot_reader import Readback


class FairspineApp(app_manager.RyuApp):
    """Wires discovery, service, installer and HTTP together."""

    OFP_VERSIONS: ClassVar = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Construct and connect the parts; Ryu passes its own arguments."""
        super().__init__(*args, **kwargs)
        start = startup.current()
        self.runtime = EventletRuntime()
        self.store = start.store
        self.load = PacketLoad(self.runtime.clock)
        intended = None if start.fabric is None else IntendedHosts.of(start.fabric)
        limits = HostLimits(start.settings.hosts_per_port, start.settings.max_discovered_hosts)
        self.discovery = Discovery(self.runtime.clock, start.fabric, hosts=intended, limits=limits, loud=self.load.loud)
        self.readings, self.instruments = Readings(), Instruments()
        # Each of a thousand switches may settle several times a second, and each call examines all of them.
        settled = Spaced(lambda: self.service.settled(), self.runtime.later, self.runtime.clock)
        self.installer = Installer(
            self.runtime.offload_in_turn,
            settled=settled,
            was_read=lambda dpid, held: self._was_read(dpid, held),
            clock=self.runtime.clock,
            instance=start.store.instance(),
            meters=start.settings.switch_meters == "on",
        )
        self.verifier = Verifier(
            self.runtime,
            self.installer,
            period=start.settings.readback_seconds,
            told=lambda text, details: self.service.drifted(text, details),
        )
        self.prober = Prober(
            self.discovery,
            changed=lambda: self.service.network_changed(),
            told=settled,
            name=self.installer.name,
            clock=self.runtime.clock,
            dropped=lambda: self.dpids.context.dropped,
        )
        dpids = {each.dpid for each in (*start.fabric.leaves, *start.fabric.spines)} if start.fabric else frozenset()
        self.dpids = DpidRegistry(
            name=self.installer.name,
            changed=lambda: self.service.settled(),
            clock=self.runtime.clock,
            is_known=lambda dpid: not dpids or dpid in dpids,
        )
        self.dpids.guard(open_places(start.settings.max_switch_connections), start.openflow_tls)
        self.admission = Admission(self.runtime, read_preview, default_qps_of(start.settings))
        self.readback = Readback(self.runtime, self.installer.exchanges)
        self.service = Service(
            start.settings,
            start.fabric,
            self.runtime,
            self.store,
            start.kept,
            southbound=Southbound(
                self.discovery.snapshot,
                self.installer.target,
                self.installer.states,
                lambda: self.installer.refusal,
                lambda: [*self.dpids.notices(), *self.prober.notices(), *self.verifier.reasons()],
                self._southbound_counts,
                read=self.readback.read,
                next_try=lambda: self.installer.next_try,
                discovery=self.prober.counts,
            ),
            admission=self.admission,
            read_survival=read_survival,
            telemetry=Measurements(
                self.readings,
                self.instruments,
                start.settings.poll_seconds,
                lambda: self.http.streams,
                self.runtime.rest,
            ),
        )
        self.look_again = OneTimer(
            self.service.network_changed, LOOK_AGAIN, self.runtime.later, self.runtime.clock
        )  # fmt: skip
        self.poller = Poller(
            self.runtime,
            self.installer.exchanges,
            self.readings,
            self.instruments,
            period=start.settings.poll_seconds,
            name=self.installer.name,
        )
        self.hosts = HostFinder(
            self.discovery,
            intended=intended,
            fabric=lambda: self.service.state.fabric,
            datapath=self.installer.datapath,
            clock=self.runtime.clock,
            probes_per_second=start.settings.probes_per_second,
            load=self.load,
            dropped=lambda: self.dpids.context.dropped,
            changed=self.service.network_changed,
        )
        self.http = HttpServer(
            start.http_host,
            start.http_port,
            self.service,
            access=start.access,
            tls=start.tls,
            names=start.names,
            answered=self.instruments.request_answered,
        )

    def start(self) -> None:
        """Start the tasks; Ryu calls this once all applications are there."""
        super().start()
        handle_with(self.on_packet)
        self.runtime.start()
        self.service.start()
        self.hosts.start()
        self.prober.start()
        self.poller.start()
        self.verifier.start()
        self.http.start()
        Watchdog(self.runtime, lambda: self.service.ended).start()

    def close(self) -> None:
        """Stop; Ryu calls this on the way out. Rules stay, so the network continues to forward."""
        self.http.stop()
        self.poller.stop()
        self.verifier.stop()
        self.prober.stop()
        self.installer.close()
        self.admission.close()
        self.runtime.close()
        self.store.close()

    # -- connections ------------------------------------------------------------------------------------------

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])
    def on_connection(self, ev: Any) -> None:
        """Register a switch that has connected, or remove one whose connection has ended."""
        datapath = ev.datapath
        if ev.state == MAIN_DISPATCHER:
            # Ryu has asked for the ports before it calls this.
            self._changed(self.discovery.switch_entered(datapath.id, list(datapath.ports.values())))
            self.prober.connected(datapath)
            self.installer.connected(datapath)
            self.poller.forget(datapath.id)
        elif datapath.id is not None and self.installer.datapath(datapath.id) is datapath:
            self.poller.forget(datapath.id)
            self.installer.disconnected(datapath.id, datapath)
            self.prober.disconnected(datapath.id)
            self._changed(self.discovery.switch_left(datapath.id))

    def _was_read(self, dpid: int, held: SwitchRules) -> None:
        """Use the rules that a switch held when it connected; from here on it sends discovery packets."""
        if len(held) > 1 and self.dpids.is_known(dpid):
            self.discovery.holds_rules()
        self.prober.listens(dpid)
        self.hosts.was_read(dpid, held)

    @set_ev_cls([ofp_event.EventOFPBarrierReply, ofp_event.EventOFPRoleReply], MAIN_DISPATCHER)
    def on_reply(self, ev: Any) -> None:
        """Pass a reply to the exchange that waits for it, and a barrier reply to the prober."""
        exchange = self.installer.exchange(ev.msg.datapath)
        if exchange is not None:
            exchange.replied(ev.msg)
        if ev.msg.msg_type == ofproto_v1_3.OFPT_BARRIER_REPLY:
            self.prober.answered(ev.msg.datapath, ev.msg.xid)

    @set_ev_cls(ofp_event.EventOFPFlowRemoved, MAIN_DISPATCHER)
    def on_flow_removed(self, ev: Any) -> None:
        """Try refused rules again: a removed rule leaves room in the switch."""
        self.installer.may_have_room(ev.msg.datapath.id)

    @set_ev_cls(ofp_event.EventOFPErrorMsg, MAIN_DISPATCHER)
    def on_error(self, ev: Any) -> None:
        """Pass an OpenFlow error to the installer."""
        self.installer.refused(ev.msg)

    # -- what the network shows ---------------------------------------------------------------------------------

    @set_ev_cls(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)
    def on_port(self, ev: Any) -> None:
        """Update rules and discovery after a port has come, changed or gone."""
        dpid, port = ev.msg.datapath.id, ev.msg.desc
        self.installer.ports_changed(ev.msg.datapath)
        if ev.msg.reason == ofproto_v1_3.OFPPR_DELETE:
            self._changed(self.discovery.port_gone(dpid, port.port_no))
        else:
            self._changed(self.discovery.port_changed(dpid, port))
        if self.discovery.flapping():
            self.look_again()

    def on_packet(self, datapath: Any, packet: PacketIn) -> bool:
        """Handle a packet-in before Ryu's parser, in the greenlet that reads the connection; return ``True``."""
        if datapath.state != MAIN_DISPATCHER:
            return True
        if is_lldp(packet.data):
            self.prober.packet(datapath.id, packet)
        else:
            self.hosts.packet(datapath.id, packet)
        return True

    def _southbound_counts(self) -> SouthboundCounts:
        installer = self.installer
        shared = self.dpids.context
        return SouthboundCounts(
            installer.edits,
            installer.refusals,
            self.dpids.refused,
            dict(installer.errors),
            repaired=dict(self.verifier.repaired),
            contested=tuple(self.verifier.contested()),
            ended=dict(shared.ends),
            dropped_packets={installer.name(dpid): count for dpid, count in shared.dropped.items()},
            hosts=self.hosts.counts(),
        )

    def _changed(self, changed: bool) -> None:
        if changed:
            self.service.network_changed()
