"""Collectives in which each host sends to one other and receives from one: rings, and rounds of exchanges in pairs."""

from __future__ import annotations

import numpy as np

from controller.model.fabric import BoolArray
from controller.model.traffic import Traffic


def has_one_peer(traffic: Traffic) -> BoolArray:
    """Return [K] whether each host of a collective has one receiver and one sender in it, over however many QPs."""
    alone = np.ones(len(traffic.collectives), dtype=np.bool_)
    n_hosts = 1 + int(max(traffic.src.max(initial=0), traffic.dst.max(initial=0)))
    for host, peer in ((traffic.src, traffic.dst), (traffic.dst, traffic.src)):
        of_host = traffic.collective.astype(np.int64) * n_hosts + host
        order = np.argsort(of_host, kind="stable")
        of_host, other = of_host[order], peer[order]
        several = (of_host[1:] == of_host[:-1]) & (other[1:] != other[:-1])
        alone[of_host[1:][several] // n_hosts] = False
    return alone
