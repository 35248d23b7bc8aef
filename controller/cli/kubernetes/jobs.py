"""The jobs of a running controller made those that run in a Kubernetes cluster."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from controller.cli.connection.client import Client, NoAnswer, described, described_rows
from controller.cli.live.servers import hosts_by_server
from controller.cli.shared.command_error import CommandError
from controller.model.errors import InputError
from controller.workload.kubernetes.gangs import Gang
from controller.workload.kubernetes.pods import Pod
from controller.workload.kubernetes.seats import hosts_of_ranks, in_rank_order, present

SUFFIXES = ("yaml", "yml", "json")
"""Suffixes of the files of descriptions, in the order in which they are looked for."""

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


class GangState(NamedTuple):
    """The result for the job of a gang: ``created``, ``replaced``, ``kept``, ``waits``, ``refused`` or ``deleted``.

    ``job`` is its name at the controller, ``why`` the reason of ``waits`` and ``refused``.
    """

    job: str
    state: str
    why: str = ""


class Cluster(NamedTuple):
    """Functions that ask the API server for facts about gangs that their pods do not contain.

    Attributes:
        sizes: returns the number of pods of each template of a gang; ``None``: the gang's object does not exist.
        accelerators: returns the number of accelerators of a node.
    """

    sizes: Callable[[Gang, list[Pod]], Mapping[str, int] | None]
    accelerators: Callable[[str], int]


@dataclass
class KubernetesJobs:
    """Keeps the jobs of a controller whose names begin with a prefix as they are in a cluster.

    A job is at the controller while all of its pods have nodes and none has ended. Jobs are compared by their digest,
    so that a watcher that starts anew changes nothing.

    Attributes:
        client: the controller.
        descriptions: the folder with a job file without hosts for each value of the label.
        prefix: the first part of the names of jobs.
    """

    client: Client
    descriptions: Path
    prefix: str
    _seats: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def name_of(self, gang: Gang) -> str:
        """Return the name of a gang's job; namespaces have no dots, so two gangs never have the same."""
        return f"{self.prefix}.{gang.kind}.{gang.namespace}.{gang.name}"

    def reconcile(self, pods: Iterable[Pod], cluster: Cluster) -> list[GangState]:
        """Push, replace and delete jobs; return what became of each, by name.

        A job that the controller refuses, or that cannot be described, is told as ``refused`` and tried again next
        time. One that the controller has from before then stays if it is on the same nodes, and is deleted otherwise.

        Raises:
            NoAnswer: the controller does not answer.
            CommandError: the API server does not answer, or the controller refuses to list jobs.
        """
        gangs: dict[Gang, list[Pod]] = {}
        for pod in pods:
            gangs.setdefault(pod.gang, []).append(pod)
        listed = described(self.client.request("GET", "jobs").document, "jobs")["jobs"]
        rows = described_rows(listed, "name", "digest")
        there = {row["name"]: row["digest"] for row in rows if row["name"].startswith(f"{self.prefix}.")}
        nics = hosts_by_server(self.client)
        states: list[GangState] = []
        for gang in sorted(gangs):
            state, nodes = self._brought_up(gang, present(gangs[gang]), there, nics, cluster)
            moved = state.state == "refused" and self._seats.get(state.job, nodes) != nodes
            if state.job in there and (moved or state.state == "waits"):
                self._delete(state.job)
            if state.state in ("created", "replaced", "kept"):
                self._seats[state.job] = nodes
            states.append(state)
        for name in sorted(there.keys() - {state.job for state in states}):
            self._delete(name)
            states.append(GangState(name, "deleted"))
        return states

    def _brought_up(
        self,
        gang: Gang,
        pods: list[Pod],
        there: Mapping[str, str],
        nics: Mapping[str, list[str]],
        cluster: Cluster,
    ) -> tuple[GangState, tuple[str, ...]]:
        """Push the job of a gang if all pods have nodes; return what became of it, and the nodes by rank."""
        name, nodes = self.name_of(gang), tuple(sorted({pod.node for pod in pods if pod.node}))
        try:
            sizes = cluster.sizes(gang, pods)
            ranked = None if sizes is None else in_rank_order(pods, sizes)
            if ranked is None:
                return GangState(name, "waits", _what_waits(pods, sizes)), ()
            nodes = tuple(str(pod.node) for pod in ranked)
            accelerators = {node: cluster.accelerators(node) for node in nodes}
            hosts = hosts_of_ranks(ranked, accelerators, nics)
            body = self._body(name, ranked[0].description, hosts)
            if there.get(name) == hashlib.sha256(body).hexdigest():
                return GangState(name, "kept"), nodes
            pushed = self.client.request("PUT", "jobs", name, body=body)
        except InputError as error:
            return GangState(name, "refused", str(error)), nodes
        except NoAnswer:
            raise
        except CommandError as failure:
            if failure.exit_code != 2:
                raise
            return GangState(name, "refused", str(failure)), nodes
        return GangState(name, "created" if pushed.status == 201 else "replaced"), nodes

    def _delete(self, name: str) -> None:
        self._seats.pop(name, None)
        self.client.request("DELETE", "jobs", name)

    def _body(self, name: str, description: str, hosts: tuple[str, ...]) -> bytes:
        """Return the job file to push; the same pods and file give the same bytes.

        Raises:
            InputError: there is no such description, or it cannot be on these hosts.
        """
        import orjson

        from controller.workload.placement.server_placement import on_hosts

        document, path = self._description(description)
        placed = on_hosts({**document, "name": name}, hosts, str(path))
        return orjson.dumps(placed, option=orjson.OPT_SORT_KEYS)

    def _description(self, name: str) -> tuple[dict[str, Any], Path]:
        """Return the description of a name. Users choose names, not files: these are in the administrator's folder."""
        from controller.model.files.fabric_file import read_document

        if not _NAME.fullmatch(name) or ".." in name:
            raise InputError("is not the name of a description", field="description", value=name)
        for suffix in SUFFIXES:
            path = self.descriptions / f"{name}.{suffix}"
            if path.is_file():
                document = read_document(path)
                if not isinstance(document, dict):
                    raise InputError("must be a job file", source=str(path))
                return document, path
        raise InputError(f"there is no such file in {self.descriptions}", field="description", value=name)


def _what_waits(pods: list[Pod], sizes: Mapping[str, int] | None) -> str:
    if sizes is None:
        return "its object does not exist"
    bound = sum(pod.node is not None for pod in pods if pod.place.template in sizes)
    return f"{bound} of {sum(sizes.values())} pods have a node"
