"""Contention: the links that planned flows can overfill, and which rows and jobs such links join."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.model.assignment import UNROUTABLE, Assignment
from controller.model.fabric import BoolArray, Fabric, FloatArray, IntArray
from controller.model.paths.grouping import components
from controller.model.paths.ways import NO_LINK
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Int64Array, Traffic


@dataclass(frozen=True, eq=False)
class Contention:
    """Where the rows of an assignment may have to share.

    Attributes:
        contends: [R] whether a row is on a link between switches that several flows can overfill (their hosts can send,
            and take in, more than it carries), or shares a link of a host with such a row, and so on: a row that is not
            paced must take nothing from one that is.
        group: [J] of each job: jobs in different groups have no such link, and no link of a host, in common.
    """

    contends: BoolArray
    group: IntArray

    @staticmethod
    def of(fabric: Fabric, traffic: Traffic, assignment: Assignment) -> Contention:
        """Find the links that flows can overfill, however fast they are sent."""
        n_rows, n_jobs, n_links = assignment.n_rows, len(traffic.jobs), len(fabric.link_gbps)
        rows = np.flatnonzero(assignment.path != UNROUTABLE).astype(np.int32)
        flow = assignment.flow[rows]
        src, dst = traffic.src[flow], traffic.dst[flow]
        table = fabric.ways.links(fabric.host_leaf[src], fabric.host_leaf[dst], assignment.path[rows])
        at, column = np.nonzero(table != NO_LINK)
        link = table[at, column]
        overfull = _overfull(fabric, link, flow[at], src[at], dst[at])
        if not overfull.any():
            return Contention(np.zeros(n_rows, dtype=np.bool_), np.arange(n_jobs, dtype=np.int32))
        shared = overfull[link]
        row = np.concatenate([rows[at[shared]], rows, rows])
        links = np.concatenate([link[shared], src, fabric.n_hosts + dst]).astype(np.int32)
        part = components(row, links + np.int32(n_rows), n_rows + n_links)[:n_rows]
        joined = np.zeros(n_rows + n_links, dtype=np.bool_)
        joined[part[rows[at[shared]]]] = True
        contends: BoolArray = joined[part]
        job = traffic.job_index[traffic.collective[assignment.flow[row]]]
        return Contention(contends, components(job, links + np.int32(n_jobs), n_jobs + n_links)[:n_jobs])


def _overfull(fabric: Fabric, link: IntArray, flow: IntArray, src: IntArray, dst: IntArray) -> BoolArray:
    """Return whether each link [E] has several flows, whose senders and receivers are together faster than it.

    Args:
        fabric: the fabric.
        link: [N] link between switches.
        flow: [N] a flow on it.
        src: [N] its sender.
        dst: [N] its receiver.
    """
    n_links, n_hosts = len(fabric.link_gbps), fabric.n_hosts
    any_flow = np.zeros(n_links, dtype=np.int32)
    any_flow[link] = flow
    several = np.bincount(link, weights=flow != any_flow[link], minlength=n_links) > 0
    sent = _most(link, src, fabric.link_gbps[:n_hosts], n_links)
    received = _most(link, dst, fabric.link_gbps[n_hosts : 2 * n_hosts], n_links)
    overfull: BoolArray = several & (np.minimum(sent, received) > fabric.link_gbps * (1 + TOLERANCE))
    return overfull


def _most(link: IntArray, host: IntArray, gbps: FloatArray, n_links: int) -> FloatArray:
    """Return the sum [E] of the rates ``gbps`` [H] of the hosts that have a flow on each link."""
    links, hosts = _distinct(link, host)
    return np.bincount(links, weights=gbps[hosts], minlength=n_links).astype(np.float64)


def _distinct(link: IntArray, other: IntArray) -> tuple[Int64Array, Int64Array]:
    """Return the distinct pairs of two columns."""
    pairs = np.sort(link.astype(np.int64) << 32 | other.astype(np.int64))
    # This takes a fraction of the time of ``numpy.unique``, which hashes.
    pairs = pairs[np.diff(pairs, prepend=-1) != 0]
    return pairs >> 32, pairs & 0xFFFFFFFF
