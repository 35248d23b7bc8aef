"""A fabric of routers whose cables fail, and what honest agents report of their probes of cables."""

from __future__ import annotations

from ipaddress import IPv6Address

from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.southbound.srv6.cable_probes import CableProbes
from controller.southbound.srv6.carrier_cables import CarrierCables
from controller.southbound.srv6.router_configuration import CableAddresses
from controller.southbound.srv6.router_tables import router_tables
from controller.southbound.srv6.segment_ids import SegmentIds
from controller.southbound.srv6.walk import RouterWalk, walk
from tests.unit.strategies import fabrics, pod_fabrics

any_fabric = st.one_of(fabrics(failures=False), pod_fabrics())


class Network:
    """A fabric whose cables may be down for all to see, or lose all packets silently, and its hosts' agents."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.ids = SegmentIds.of(fabric)
        self.tables, self.cables = router_tables(self.ids), CarrierCables(self.ids, CableAddresses(fabric))
        probes = CableProbes(self.ids)
        self.probes = [probes.of(host) for host in range(fabric.n_hosts)]
        self.bypasses = [probes.bypasses(host) for host in range(fabric.n_hosts)]
        self.silent, self.loud, self.one_way = frozenset[int](), frozenset[int](), frozenset[int]()
        """Cables that lose packets, those that all see to be down, and links, of one direction, that lose packets."""

    def walk(self, host: int, carrier: IPv6Address) -> RouterWalk:
        """Where a packet goes; routers see cables that are down, and not those that lose packets."""
        now = self.fabric.without_links([self.fabric.cable_names[cable] for cable in self.loud])
        return walk(self.ids, now, self.tables, host, carrier)

    def over(self, taken: RouterWalk) -> list[int]:
        first = self.fabric.first_cable_link
        return [(link - first) // 2 for link in taken.links if link >= first]

    def comes_back(self, host: int, probe: IPv6Address) -> bool:
        taken = self.walk(host, probe)
        lost = not self.silent.isdisjoint(self.over(taken)) or not self.one_way.isdisjoint(taken.links)
        return taken.host == host and not lost

    @property
    def down(self) -> frozenset[int]:
        """All cables that do not work in both directions."""
        first = self.fabric.first_cable_link
        return self.silent | self.loud | {(link - first) // 2 for link in self.one_way}

    def report(self, host: int, *, old: bool = False) -> tuple[list[frozenset[int]], frozenset[int], frozenset[int]]:
        """What an honest agent says: cables of dead paths, of probes that come back, and those shown by these."""
        dead, passed, shown = self.answers(host, old=old)
        return dead, frozenset[int]().union(*passed), shown

    def answers(
        self, host: int, *, old: bool = False
    ) -> tuple[list[frozenset[int]], list[frozenset[int]], frozenset[int]]:
        """Cables of dead paths, of each probe that comes back, and those shown; ``old``: without bypass probes."""
        back = {probe: self.comes_back(host, probe) for probe in self.probes[host]}
        came = [probe for probe, is_back in back.items() if is_back]
        dead = [self.cables.suspects(host, probe, None, probed=True) for probe in back if probe not in came]
        entered = set[int]()
        for probe in () if old else self.bypasses[host]:
            cable = self.cables.bypassed(host, probe)
            assert cable is not None
            if self.comes_back(host, probe):
                dead.append(frozenset({cable}))
            else:
                entered.add(cable)
        shown = frozenset[int]().union(*(self.cables.shown(host, probe, entered) for probe in came))
        return dead, [self.cables.confirmed(host, probe) for probe in came], shown


@st.composite
def networks(draw: st.DrawFn) -> Network:
    return Network(draw(any_fabric))
