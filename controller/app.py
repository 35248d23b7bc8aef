"""The Ryu application: event handlers that only delegate. Run it by ``ryu-manager controller.app``."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from ryu.ofproto import ofproto_v1_3

from controller import startup
from controller.config import default_qps_of, options_of
from controller.core.configuration import Configuration
from controller.core.ports.enforcer import Enforcer
from controller.core.ports.network import Network
from controller.core.ports.store import Persistence
from controller.core.saved.restore import restored_enforcement
from controller.core.saved.saved_state import SavedState
from controller.host_enforcer import HostEnforcer
from controller.joint_enforcer import JointEnforcer
from controller.openflow_southbound import OpenFlowSouthbound
from controller.panel_southbound import PanelSouthbound
from controller.rest.readers import READERS
from controller.rest.serving.limits import limits_for
from controller.rest.wsgi import HttpServer
from controller.router_southbound import RouterSouthbound
from controller.routing.split_check import check_splits
from controller.service.circuits.circuit_service import CircuitService
from controller.service.cluster.cluster_member import ClusterMember
from controller.service.measurements import Measurements
from controller.service.reconciling.admission import Admission
from controller.service.reconciling.event_log import EventLog
from controller.service.service import Service
from controller.service.tasks.systemd import Watchdog
from controller.southbound.bgp.cable_verdicts import CableVerdicts
from controller.southbound.bgp.speaker import BgpSpeaker
from controller.southbound.enforcement.carried_rules import CarriedRulesCompiler
from controller.southbound.enforcement.host_compiler import HostCompiler
from controller.southbound.enforcement.registry import ENFORCEMENTS
from controller.southbound.openflow.connections.packet_in import PacketIn, handle_with
from controller.southbound.openflow.runtime import EventletRuntime
from controller.southbound.srv6.segment_ids import SegmentIds, network
from controller.telemetry.instruments import Instruments
from controller.telemetry.poller import Poller
from controller.telemetry.port_rates import Readings
from controller.telemetry.snapshot_reader import Readback


class FairspineApp(app_manager.RyuApp):
    """Makes the switch side, the service and the interface, each from those before it."""

    OFP_VERSIONS: ClassVar = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Construct the parts; Ryu passes its own arguments."""
        super().__init__(*args, **kwargs)
        start = startup.current()
        settings, intended = start.configuration.settings, start.configuration.intended
        self.runtime = EventletRuntime()
        self.store = start.store
        events = EventLog(self.runtime)
        self.southbound = OpenFlowSouthbound(
            start.configuration, self.runtime, events, instance=self.store.instance(), tls=start.openflow_tls
        )
        exchanges = self.southbound.installer.exchanges
        observer = self.southbound.observer
        self.routers: RouterSouthbound | None = None
        if intended is not None and intended.routers:
            self.routers = RouterSouthbound(
                SegmentIds.of(intended, network("srv6_block", settings.srv6_block)),
                start.bgp,
                self.runtime,
                BgpSpeaker,
                changed=observer.cables_changed,
                noticed=observer.notices_changed.set,
            )
        self.host_enforcer = _host_enforcer(
            start.configuration,
            start.saved,
            self.runtime,
            self.routers,
            self.southbound,
        )
        enforcer: Enforcer = self.southbound.enforcer
        if self.host_enforcer is not None and self.routers is not None:
            enforcer = self.host_enforcer
        elif self.host_enforcer is not None:
            enforcer = self._joint_enforcer(self.host_enforcer)
        readings, instruments = Readings(), Instruments()
        self.poller = Poller(
            self.runtime, exchanges, readings, instruments, period=settings.poll_seconds, name=self.southbound.names
        )
        self.admission = Admission(
            self.runtime,
            READERS,
            default_qps_of(settings),
            partial(check_splits, policies=[settings.policy], options=options_of(settings)),
            settings.policy,
        )
        self.member: ClusterMember | None = None
        if start.cluster is not None:
            settings_of_cluster, election = start.cluster
            self.member = ClusterMember(settings_of_cluster, self.runtime, election, self.store, enforcer)
        persistence = Persistence(self.store, start.saved, self.member, None if self.member is None else self.store)
        self.service: Service | CircuitService
        if start.configuration.optical is not None:
            panels = PanelSouthbound(self.southbound, self.runtime)
            self.service = CircuitService(
                settings, start.configuration.optical, self.runtime, persistence, panels, events
            )
        else:
            self.service = Service(
                start.configuration,
                self.runtime,
                persistence,
                Network(observer, enforcer, self.host_enforcer, self.routers),
                self.admission,
                events,
                Measurements(
                    Readback(self.runtime, exchanges),
                    readings,
                    instruments,
                    settings.poll_seconds,
                    settings.metrics_links,
                ),
            )
        self.http = HttpServer(
            start.http_address,
            self.service,
            limits=limits_for(
                settings.max_http_connections,
                _agents(start.configuration, self.host_enforcer),
                settings.max_switch_connections,
            ),
            security=start.security,
            names=start.names,
            answered=instruments.request_answered,
        )
        self.watchdog = Watchdog(self.runtime, self.service.ended)

    def _joint_enforcer(self, hosts: HostEnforcer) -> JointEnforcer:
        switches = self.southbound.enforcer
        joint = JointEnforcer(CarriedRulesCompiler(switches.compiler, hosts.compiler), switches, hosts)
        self.southbound.tell_settled(joint.see_switches)
        return joint

    def start(self) -> None:
        """Start the tasks; Ryu calls this once all applications are there."""
        super().start()
        handle_with(self.on_packet)
        self.runtime.start()
        if self.member is None:
            self.service.start()
        else:
            assert isinstance(self.service, Service)
            assert self.service.follower is not None
            self.member.start(self.service.follower, began=self.service.lead, ended=self._start_again)
        self.southbound.start()
        if self.routers is not None:
            self.routers.start()
        if self.host_enforcer is not None:
            self.host_enforcer.start()
        self.poller.start()
        self.http.start()
        self.watchdog.start()

    def close(self) -> None:
        """Stop; Ryu calls this on the way out. Rules stay, so the network continues to forward."""
        self.http.stop()
        self.poller.stop()
        self.southbound.close()
        if self.routers is not None:
            self.routers.close()
        self.admission.close()
        self.service.close()
        if self.member is not None:
            self.member.close()
        self.runtime.close()
        self.store.close()

    def _start_again(self, _reason: str) -> None:
        """Begin anew as a follower. The end of the process ends its threads and its connections to the store."""
        self.http.stop()
        self.admission.close()
        self.service.close()
        startup.start_again()

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])
    def on_connection(self, ev: Any) -> None:
        """Register a switch that has connected, or remove one whose connection has ended."""
        if ev.state == MAIN_DISPATCHER:
            # Ryu has asked for the ports before it calls this.
            self.southbound.connected(ev.datapath)
            self.poller.forget(ev.datapath.id)
        elif self.southbound.disconnected(ev.datapath):
            self.poller.forget(ev.datapath.id)

    @set_ev_cls(ofp_event.EventOFPRoleReply, MAIN_DISPATCHER)
    def on_role(self, ev: Any) -> None:
        """Pass a reply to a role request to the southbound side."""
        self.southbound.replied(ev.msg)

    @set_ev_cls(ofp_event.EventOFPBarrierReply, MAIN_DISPATCHER)
    def on_barrier(self, ev: Any) -> None:
        """Pass a reply to a barrier request to the southbound side."""
        self.southbound.barrier_replied(ev.msg)

    @set_ev_cls(ofp_event.EventOFPFlowRemoved, MAIN_DISPATCHER)
    def on_flow_removed(self, ev: Any) -> None:
        """Report a rule that a switch has removed."""
        self.southbound.flow_removed(ev.msg)

    @set_ev_cls(ofp_event.EventOFPErrorMsg, MAIN_DISPATCHER)
    def on_error(self, ev: Any) -> None:
        """Pass an OpenFlow error to the southbound side."""
        self.southbound.failed(ev.msg)

    @set_ev_cls(ofp_event.EventOFPExperimenter, MAIN_DISPATCHER)
    def on_experimenter(self, ev: Any) -> None:
        """Pass a message of an extension to the southbound side."""
        self.southbound.experimenter(ev.msg)

    @set_ev_cls(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)
    def on_port(self, ev: Any) -> None:
        """Report a port that has come, changed or gone."""
        gone = ev.msg.reason == ofproto_v1_3.OFPPR_DELETE
        self.southbound.port_changed(ev.msg.datapath, ev.msg.desc, gone=gone)

    def on_packet(self, datapath: Any, packet: PacketIn) -> bool:
        """Handle a packet-in before Ryu's parser, in the greenlet that reads the connection; return ``True``."""
        if datapath.state == MAIN_DISPATCHER:
            self.southbound.packet(datapath.id, packet)
        return True


def _agents(configuration: Configuration, enforcer: HostEnforcer | None) -> int:
    """Return how many agents may wait for plans."""
    if configuration.optical is not None:
        return configuration.optical.n_servers
    return 0 if enforcer is None or configuration.intended is None else configuration.intended.n_hosts


def _host_enforcer(
    configuration: Configuration,
    saved: SavedState,
    runtime: EventletRuntime,
    routers: RouterSouthbound | None,
    southbound: OpenFlowSouthbound,
) -> HostEnforcer | None:
    """Return what gives plans to hosts; ``None``: switches are of two kinds, or there is no fabric file."""
    fabric, settings = configuration.intended, configuration.settings
    if fabric is None or 0 < len(fabric.routers) < len(fabric.switches):
        return None
    observer, enforcer = southbound.observer, southbound.enforcer
    name = restored_enforcement(saved.mode, settings.enforcement)
    by_hosts = ENFORCEMENTS.named(name).by_hosts
    return HostEnforcer(
        HostCompiler(settings),
        runtime,
        fabric,
        by_hosts=by_hosts,
        # OpenFlow switches tell themselves which cables work.
        verdicts=CableVerdicts(fabric.cable_names) if routers is None else routers.verdicts,
        paths_changed=partial(observer.cables_changed, False),
        switches_changed=enforcer.switches_changed if routers is None else None,
    )
