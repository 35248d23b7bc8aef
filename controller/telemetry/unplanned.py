"""Rates of what is in no plan: those that ports count, without those that rules of planned flows count."""

from __future__ import annotations

import numpy as np

from controller.model.assignment import LOCAL
from controller.model.fabric import Fabric, FloatArray
from controller.model.traffic import Traffic
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.telemetry.port_rates import Readings


def unplanned_rates(fabric: Fabric, traffic: Traffic, wire: FlowEncoding, readings: Readings) -> FloatArray:
    """Return the rate [E] in Gbit/s of the traffic of each link that belongs to no row of the encoding.

    It is NaN where the port was not read twice, and where a row crosses the link that no rule counts (a flow within a
    leaf). Switches are read at different times, so a single value can be too low or too high by what planned flows
    send in a poll; the mean over several polls is not.

    Args:
        fabric: as observed.
        traffic: the planned flows.
        wire: their rows, by whose paths the switches forward.
        readings: the newest two readings of each switch.
    """
    used = readings.link_rates(fabric).gbps
    row = readings.row_rates(fabric, traffic, wire)
    src, dst = traffic.src[wire.flow], traffic.dst[wire.flow]
    planned = np.zeros(fabric.n_links)
    moves = (wire.path >= 0) | (wire.path == LOCAL)
    np.add.at(planned, src[moves], row[moves])
    np.add.at(planned, fabric.n_hosts + dst[moves], row[moves])
    links = fabric.ways.links(fabric.host_leaf[src], fabric.host_leaf[dst], wire.path)
    there = links >= 0
    np.add.at(planned, links[there], np.broadcast_to(row[:, None], links.shape)[there])
    return used - planned
