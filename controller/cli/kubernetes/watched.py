"""The pods of a cluster that have the label, kept as the API server tells of them."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.cli.kubernetes.api import ApiServerError, KubernetesApi
from controller.cli.kubernetes.jobs import Cluster
from controller.model.errors import InputError
from controller.workload.kubernetes.gangs import KINDS, Gang
from controller.workload.kubernetes.pods import Pod, accelerators_in, read_pod

QUIET_SECONDS, LONGEST_SECONDS = 0.3, 3.0
"""Changes are carried out together when none has come for this time, and at the latest after the second one."""

Change = tuple[str, dict[str, Any]]
"""A change of a pod (``ADDED``, ``MODIFIED`` or ``DELETED``), and the pod."""


@dataclass
class Watched:
    """The pods of a cluster with the label, as far as they are known.

    Attributes:
        pods: by namespace and name.
        unclear: why a pod cannot be used, by namespace and name.
    """

    api: KubernetesApi
    label: str
    accelerators: tuple[str, ...]
    pods: dict[str, Pod] = field(default_factory=dict)
    unclear: dict[str, str] = field(default_factory=dict)
    _nodes: dict[str, int] = field(default_factory=dict)
    _sizes: dict[Gang, Mapping[str, int] | None] = field(default_factory=dict)

    @property
    def cluster(self) -> Cluster:
        """The functions that ask the API server; their answers are kept until pods change."""
        return Cluster(self._sizes_of, self._accelerators_of)

    def read_all(self) -> str:
        """Read all pods anew; return the version from which changes follow."""
        documents, version = self.api.pods()
        self.pods.clear()
        self.unclear.clear()
        self._nodes.clear()
        self._sizes.clear()
        for document in documents:
            self.take("ADDED", document)
        return version

    def take(self, kind: str, document: dict[str, Any]) -> None:
        """Take in one pod: ``ADDED``, ``MODIFIED`` or ``DELETED``."""
        try:
            metadata = document["metadata"]
            key = f"{metadata['namespace']}/{metadata['name']}"
        except (KeyError, TypeError):
            raise ApiServerError(f"{self.api.url}: a pod without a name") from None
        self.unclear.pop(key, None)
        known = self.pods.pop(key, None)
        if known is not None:
            self._sizes.pop(known.gang, None)
        if kind == "DELETED" or self.label not in (metadata.get("labels") or {}):
            return
        try:
            pod = read_pod(document, self.label, self.accelerators)
        except InputError as error:
            self.unclear[key] = str(error)
            return
        self.pods[key] = pod
        # An elastic job's object may have changed with its pods.
        self._sizes.pop(pod.gang, None)

    def _sizes_of(self, gang: Gang, pods: list[Pod]) -> Mapping[str, int] | None:
        if gang not in self._sizes:
            kind = KINDS[gang.kind]
            if kind.api is None:
                return {"": max((pod.total or 0 for pod in pods), default=0)}
            owner = self.api.owner(gang, kind.api)
            try:
                self._sizes[gang] = None if owner is None else kind.sizes(owner, self.label)
            except InputError as error:
                raise error.with_source(str(gang)) from None
        return self._sizes[gang]

    def _accelerators_of(self, node: str) -> int:
        if node not in self._nodes:
            document = self.api.node(node)
            if document is None:
                raise InputError("the cluster has no node of this name", field="node", value=node)
            allocatable = (document.get("status") or {}).get("allocatable") or {}
            self._nodes[node] = accelerators_in(allocatable, self.accelerators)
        return self._nodes[node]


def bundles(api: KubernetesApi, version: str, seconds: int) -> Iterator[list[Change]]:
    """Yield changes as lists, those that come at about the same time together, for some seconds.

    Raises:
        CommandError: as ``KubernetesApi.changes`` does.
    """
    arrived: queue.Queue[Change | BaseException | None] = queue.Queue()

    def read() -> None:
        try:
            for change in api.changes(version, seconds):
                arrived.put(change)
        except BaseException as error:
            arrived.put(error)
        else:
            arrived.put(None)

    threading.Thread(target=read, daemon=True).start()
    open_ = True
    while open_:
        bundle = []
        item, deadline = arrived.get(), time.monotonic() + LONGEST_SECONDS
        while True:
            if isinstance(item, BaseException):
                raise item
            if item is None:
                open_ = False
                break
            bundle.append(item)
            try:
                item = arrived.get(timeout=max(0.0, min(QUIET_SECONDS, deadline - time.monotonic())))
            except queue.Empty:
                break
        if bundle:
            yield bundle
