"""What links carry beside planned flows, from the counters of ports and rules."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.assignment import LOCAL
from controller.southbound.rules.priorities import DISCOVERY, FLOW
from controller.telemetry.counters import PortCounters, RuleCounters, SwitchCounters
from controller.telemetry.port_rates import Readings
from controller.telemetry.unplanned import unplanned_rates
from tests.unit.laws import examples
from tests.unit.southbound.plans import cases, patient
from tests.unit.telemetry.placed_traffic import place, with_ports

SECONDS = 2.0
OCTETS = st.integers(0, 10**10)


@settings(patient, max_examples=examples(30, 180))
@given(data=st.data())
def test_a_link_carries_what_its_port_counts_less_what_rules_of_flows_on_it_count(data: st.DataObject) -> None:
    case = data.draw(cases("per_flow"))
    fabric, traffic, wire = case.fabric, case.traffic, case.encoding
    of_rule = {
        dpid: {key: data.draw(OCTETS) for key in case.rules[dpid].rules if FLOW <= key[1] < DISCOVERY}
        for dpid in case.rules
    }
    carried = data.draw(st.lists(OCTETS, min_size=fabric.n_links, max_size=fabric.n_links))
    of_port = {dpid: {port: [0, 0] for port in ports} for dpid, ports in with_ports(fabric).items()}
    for link, octets in zip(fabric.link_ids, carried, strict=True):
        dpid, port, receives = place(fabric, link)
        of_port[dpid][port][0 if receives else 1] = octets
    readings = Readings()
    for moment in (0, 1):
        for dpid, ports in of_port.items():
            counted = {
                port: PortCounters(0, 0, moment * rx, moment * tx, 0, 0, 0, 0) for port, (rx, tx) in ports.items()
            }
            rules = {key: RuleCounters(1, moment * octets) for key, octets in of_rule.get(dpid, {}).items()}
            readings.add(SwitchCounters(dpid, moment * SECONDS, counted, rules))
    row = readings.row_rates(fabric, traffic, wire)
    planned = [0.0] * fabric.n_links
    for rate, flow, path in zip(row.tolist(), wire.flow.tolist(), wire.path.tolist(), strict=True):
        src, dst = int(traffic.src[flow]), int(traffic.dst[flow])
        leaves = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
        crossed = fabric.ways.links_of(*leaves, path) if path >= 0 else ()
        for on in (src, *crossed, fabric.n_hosts + dst) if path >= 0 or path == LOCAL else ():
            planned[on] += rate
    expected = np.array(carried) * 8 / 1e9 / SECONDS - planned
    assert np.allclose(unplanned_rates(fabric, traffic, wire, readings), expected, atol=1e-6, equal_nan=True)
