"""The Ryu application: event handlers that delegate, nothing else. Run it by ``ryu-manager controller.app``."""

from __future__ import annotations

from typing import Any, ClassVar

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from ryu.ofproto import ofproto_v1_3
from ryu.topology import event

from controller import startup
from controller.rest.wsgi import HttpServer
from controller.service.admission import Admission
from controller.service.metrics import Telemetry
from controller.service.reports import Southbound, SouthboundCounts
from controller.service.service import Service
from controller.southbound.flapping import LOOK_AGAIN
from controller.southbound.openflow.discovery import GRACE, Discovery, port_id, release_topology
from controller.southbound.openflow.gate import Gate
from controller.southbound.openflow.hosts import HostFinder
from controller.southbound.openflow.installer import Installer
from controller.southbound.openflow.runtime import EventletRuntime
from controller.telemetry.instruments import Instruments
from controller.telemetry.poller import Poller
from controller.telemetry.readback import Readback
from controller.telemetry.readings import Readings


class FairspineApp(app_manager.RyuApp):
    """Wires discovery, service, installer and HTTP together."""

    OFP_VERSIONS: ClassVar = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        start = startup.current()
        self.runtime = EventletRuntime()
        self.store = start.store
        self.discovery = Discovery(self.runtime.clock)
        self.readings, self.instruments = Readings(), Instruments()
        self.installer = Installer(
            self.runtime.offload,
            settled=lambda: self.service.settled(),
            was_read=lambda dpid, held: self.hosts.was_read(dpid, held),
        )
        self.gate = Gate(name=self.installer.name, changed=lambda: self.service.settled(), clock=self.runtime.clock)
        self.gate.guard()
        self.admission = Admission(self.runtime)
        self.readback = Readback(self.runtime, self.installer.exchanges)
        self.service = Service(
            start.settings,
            start.fabric,
            self.runtime,
            self.store,
            start.kept,
            observe=self.discovery.snapshot,
            install=self.installer.target,
            southbound=Southbound(
                self.installer.states,
                lambda: self.installer.refusal,
                self.gate.notices,
                self._southbound_counts,
                read=self.readback.read,
            ),
            admission=self.admission,
            telemetry=Telemetry(
                self.readings,
                self.instruments,
                start.settings.poll_seconds,
                lambda: self.http.streams,
                self.runtime.rest,
            ),
        )
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
            fabric=lambda: self.service.step.fabric,
            datapath=self.installer.datapath,
            clock=self.runtime.clock,
            probes_per_second=start.settings.probes_per_second,
        )
        self.http = HttpServer(
            start.http_host,
            start.http_port,
            self.service,
            access=start.access,
            tls=start.tls,
            answered=self.instruments.request_answered,
        )

    def start(self) -> None:
        """Ryu calls this once all applications are there."""
        super().start()
        self.runtime.start()
        self.service.start()
        self.hosts.start()
        self.poller.start()
        self.http.start()

    def close(self) -> None:
        """Ryu calls this on the way out. Rules stay: the network forwards on."""
        self.http.stop()
        self.poller.stop()
        self.installer.close()
        self.admission.close()
        self.runtime.close()
        self.store.close()
        release_topology()

    # -- connections ------------------------------------------------------------------------------------------

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])
    def on_connection(self, ev: Any) -> None:
        if ev.state == MAIN_DISPATCHER:
            self.installer.connected(ev.datapath)
            self.poller.forget(ev.datapath.id)
        elif ev.datapath.id is not None:
            if self.installer.datapath(ev.datapath.id) is ev.datapath:
                self.poller.forget(ev.datapath.id)
            self.installer.disconnected(ev.datapath.id, ev.datapath)

    @set_ev_cls(
        [ofp_event.EventOFPFlowStatsReply, ofp_event.EventOFPGroupDescStatsReply, ofp_event.EventOFPBarrierReply],
        MAIN_DISPATCHER,
    )
    def on_reply(self, ev: Any) -> None:
        exchange = self.installer.exchange(ev.msg.datapath)
        if exchange is not None:
            exchange.replied(ev.msg)

    @set_ev_cls(ofp_event.EventOFPErrorMsg, MAIN_DISPATCHER)
    def on_error(self, ev: Any) -> None:
        self.installer.refused(ev.msg)

    # -- what the network shows ---------------------------------------------------------------------------------

    @set_ev_cls([event.EventSwitchEnter, event.EventSwitchReconnected])
    def on_switch_enter(self, ev: Any) -> None:
        ports = list(ev.switch.dp.ports.values())
        self._changed(self.discovery.switch_entered(ev.switch.dp.id, ports))
        self.runtime.later(GRACE, self.service.network_changed)

    @set_ev_cls(event.EventSwitchLeave)
    def on_switch_leave(self, ev: Any) -> None:
        self._changed(self.discovery.switch_left(ev.switch.dp.id))
        self.runtime.later(GRACE, self.service.network_changed)

    @set_ev_cls(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)
    def on_port(self, ev: Any) -> None:
        dpid, port = ev.msg.datapath.id, ev.msg.desc
        self.installer.ports_changed(ev.msg.datapath)
        if ev.msg.reason == ofproto_v1_3.OFPPR_DELETE:
            self._changed(self.discovery.port_gone(dpid, port.port_no))
        else:
            self._changed(self.discovery.port_changed(dpid, port))
        if self.discovery.flapping():
            self.runtime.later(LOOK_AGAIN, self.service.network_changed)

    @set_ev_cls(event.EventLinkAdd)
    def on_link_up(self, ev: Any) -> None:
        self._changed(self.discovery.link_up(port_id(ev.link.src), port_id(ev.link.dst)))

    @set_ev_cls(event.EventLinkDelete)
    def on_link_down(self, ev: Any) -> None:
        self._changed(self.discovery.link_down(port_id(ev.link.src), port_id(ev.link.dst)))

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def on_packet(self, ev: Any) -> None:
        self._changed(self.hosts.packet(ev.msg))

    def _southbound_counts(self) -> SouthboundCounts:
        installer = self.installer
        return SouthboundCounts(installer.edits, installer.refusals, self.gate.refused, dict(installer.errors))

    def _changed(self, changed: bool) -> None:
        if changed:
            self.service.network_changed()
