"""The previous plan, in a form that survives a change of traffic and of fabric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.priority import JobClass
from controller.model.timing import Schedule
from controller.model.traffic import Int64Array, Traffic, key_parts, unit_key
from controller.routing.kernels.lookup import first_rows


@dataclass(frozen=True, eq=False)
class PreviousPlan:
    """The paths of each placement unit: rows (source host, destination host, ``udp_src``) -> path class, share.

    Hosts and path classes are identified by name: flows are renumbered when a job is added or removed, hosts and
    classes when the fabric changes.

    Attributes:
        hosts, paths: names by the numbers used in the rows.
        key: [R] ``unit_key`` of source, destination and ``udp_src``, ascending; several rows where the unit was split.
        path: [R] path class.
        share: [R] part of the unit's bytes.
        schedule: the shifts of the plan's jobs, if it had any.
        classes: the classes of priority that it chose, by job.
    """

    hosts: tuple[str, ...]
    paths: tuple[str, ...]
    key: Int64Array
    path: IntArray
    share: FloatArray
    schedule: Schedule | None = None
    classes: tuple[JobClass, ...] = ()

    @staticmethod
    def of(
        fabric: Fabric,
        traffic: Traffic,
        assignment: Assignment,
        schedule: Schedule | None = None,
        classes: tuple[JobClass, ...] = (),
    ) -> PreviousPlan:
        """Extract the paths of a plan through the fabric (local and unroutable flows have none)."""
        rows = np.flatnonzero(assignment.path >= 0)
        flow = assignment.flow[rows]
        key = unit_key(traffic.src[flow], traffic.dst[flow], traffic.udp_src[flow])
        order = np.lexsort((assignment.path[rows], key))
        # Flows that no switch can tell apart have the same key, and the same paths: one row is enough.
        path = assignment.path[rows[order]]
        again = (key[order][1:] == key[order][:-1]) & (path[1:] == path[:-1])
        order = order[np.concatenate([[True], ~again])[: len(order)]]
        rows = rows[order]
        return PreviousPlan(
            fabric.host_names,
            fabric.path_names,
            key[order],
            assignment.path[rows],
            assignment.share[rows],
            schedule,
            classes,
        )

    def on(self, fabric: Fabric) -> PreviousPlan:
        """Translate the rows to another fabric's numbers; rows with unknown hosts or paths are dropped."""
        names = fabric.host_names
        if names == self.hosts and fabric.path_names == self.paths:
            return self
        class_of = {name: k for k, name in enumerate(fabric.path_names)}
        host = np.array([fabric.host_index.get(name, -1) for name in self.hosts], dtype=np.int64)
        path = np.array([class_of.get(name, -1) for name in self.paths], dtype=np.int32)
        sender, receiver, port = key_parts(self.key)
        src, dst = host[sender], host[receiver]
        kept = np.flatnonzero((src >= 0) & (dst >= 0) & (path[self.path] >= 0))
        key = unit_key(src[kept], dst[kept], port[kept])
        order = np.argsort(key, kind="stable")
        kept = kept[order]
        return PreviousPlan(
            names, fabric.path_names, key[order], path[self.path[kept]], self.share[kept], self.schedule, self.classes
        )

    def is_split(self) -> bool:
        """Return whether some unit had several paths."""
        return bool((self.key[1:] == self.key[:-1]).any())

    def rows(self, traffic: Traffic) -> tuple[Int64Array, IntArray, FloatArray]:
        """Return flow, path class and share of each row whose flow still exists."""
        wanted = unit_key(traffic.src, traffic.dst, traffic.udp_src)
        first, last = np.searchsorted(self.key, wanted), np.searchsorted(self.key, wanted, side="right")
        count = last - first
        flow = np.repeat(np.arange(traffic.n_flows), count)
        row = np.repeat(first - np.cumsum(count) + count, count) + np.arange(len(flow))
        return flow, self.path[row], self.share[row]

    def single_paths(self, traffic: Traffic) -> IntArray:
        """Return the earlier path class [F] of each flow, that of the largest share if split; -1 for a new flow."""
        if not len(self.key):
            return np.full(traffic.n_flows, -1, dtype=np.int32)
        key, path = self.key, self.path
        if self.is_split():
            order = np.lexsort((-self.share, key))
            key, path = key[order], path[order]
        row = first_rows(key, unit_key(traffic.src, traffic.dst, traffic.udp_src))
        return np.where(row >= 0, path[row], np.int32(-1))
