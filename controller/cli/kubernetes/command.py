"""``fairspine kubernetes``: pushes the jobs that run in a Kubernetes cluster to a running controller."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from controller.cli.connection.client import NoAnswer
from controller.cli.connection.remote import Remote
from controller.cli.kubernetes.api import ApiServerError, ExpiredError, KubernetesApi
from controller.cli.kubernetes.jobs import GangState, KubernetesJobs
from controller.cli.kubernetes.watched import Watched, bundles
from controller.cli.shared.change_options import ChangeOptions
from controller.cli.shared.command_error import CommandError
from controller.cli.shared.output import Printer, plural
from controller.model.errors import InputError
from controller.workload.kubernetes.pods import ACCELERATORS

LABEL = "fairspine-job"
"""The label of pods that names the description of their job, unless another one is given."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds between tries while the API server or the controller does not answer; doubled from try to try."""

_log = logging.getLogger("fairspine.kubernetes")


def kubernetes(
    descriptions: Annotated[
        Path,
        typer.Option(
            "--descriptions",
            metavar="DIR",
            help="Folder of job files without hosts: NAME.yaml for pods whose label has the value NAME.",
            show_default=False,
        ),
    ],
    label: Annotated[
        str, typer.Option("--label", metavar="KEY", help="The label of pods that names their job's description.")
    ] = LABEL,
    prefix: Annotated[
        str,
        typer.Option(
            "--prefix",
            metavar="NAME",
            help="The first part of the names of jobs; one for each cluster. Jobs of the controller whose names begin "
            "with it and that run no more are deleted.",
        ),
    ] = "k8s",
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", metavar="NAME", help="Watch this namespace.  [default: all]", show_default=False),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig",
            metavar="FILE",
            help="How to reach the API server.  [default: in a pod, its service account; else KUBECONFIG, or "
            "~/.kube/config]",
            show_default=False,
        ),
    ] = None,
    kube_context: Annotated[
        str | None,
        typer.Option(
            "--kube-context",
            metavar="NAME",
            help="A context of that file.  [default: the current one]",
            show_default=False,
        ),
    ] = None,
    accelerator: Annotated[
        list[str] | None,
        typer.Option(
            "--accelerator",
            metavar="RESOURCE",
            help="A resource that is an accelerator; may be given several times.  "
            f"[default: {', '.join(ACCELERATORS)}]",
            show_default=False,
        ),
    ] = None,
    resync: Annotated[
        float,
        typer.Option("--resync", metavar="SECONDS", min=1, help="Longest time between two readings of all pods."),
    ] = 60.0,
    once: Annotated[bool, typer.Option("--once", help="Read the pods, make the changes, and end.")] = False,
    *,
    remote: Remote,
    change: ChangeOptions,
    output: Printer,
) -> None:
    """Keep the jobs of a controller as they run in a Kubernetes cluster: JobSets, Volcano jobs, pod groups, Jobs.

    A job is pushed when all its pods have nodes, on the NICs of these nodes in the order of ranks, and deleted when one
    of its pods ends. A job that cannot be pushed runs as before, and its traffic is hashed. Kubernetes is only read.

    Exit code 0: ended by a signal or, with --once, all jobs are pushed. 1: failed, or a job was refused. 2: an option
    or a setting is wrong.
    """
    if not descriptions.is_dir():
        raise InputError("is not a folder", field="--descriptions", value=str(descriptions))
    _check_names(label, prefix)
    _log_to_stderr()
    api = KubernetesApi(kubeconfig, kube_context, namespace, label)
    jobs = KubernetesJobs(remote.client(change), descriptions, prefix)
    watched = Watched(api, label, tuple(accelerator or ACCELERATORS))
    if not once:
        _follow(watched, jobs, max(1, round(resync)))
    watched.read_all()
    states = jobs.reconcile(watched.pods.values(), watched.cluster)
    refused = sum(state.state == "refused" for state in states) + len(watched.unclear)
    if not output.is_table:
        rows = [state._asdict() for state in states] + [
            {"job": name, "state": "refused", "why": why} for name, why in sorted(watched.unclear.items())
        ]
        output.document({"jobs": rows})
    else:
        output.table(
            plural(len(states), "job"), ("job", "state", "why"), [tuple(state) for state in states], shorten=("why",)
        )
        for why in watched.unclear.values():
            output.line(why, "yellow")
    if refused:
        raise CommandError(f"{plural(refused, 'job')} could not be pushed")


def _follow(watched: Watched, jobs: KubernetesJobs, resync: int) -> NoReturn:
    """Carry out changes as they come, until a signal ends the process."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    last: dict[str, GangState | str] = {}
    pause = FIRST_PAUSE
    while True:
        try:
            version = watched.read_all()
            _tell(last, jobs.reconcile(watched.pods.values(), watched.cluster), watched.unclear)
            pause = FIRST_PAUSE
            for changes in bundles(watched.api, version, resync):
                for kind, document in changes:
                    watched.take(kind, document)
                _tell(last, jobs.reconcile(watched.pods.values(), watched.cluster), watched.unclear)
        except ExpiredError:
            continue
        except (ApiServerError, NoAnswer) as failure:
            _log.warning("%s; next try in %g s", failure, pause)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def _tell(last: dict[str, GangState | str], states: list[GangState], unclear: Mapping[str, str]) -> None:
    """Log what is new about each job and each pod that cannot be used."""
    now: dict[str, GangState | str] = {state.job: state for state in states if state.state != "deleted"}
    for state in states:
        before = last.get(state.job)
        if state.state == "kept" and isinstance(before, GangState) and before.state in ("created", "replaced", "kept"):
            continue
        if before != state:
            level = logging.WARNING if state.state == "refused" else logging.INFO
            _log.log(level, "%s: %s%s", state.job, state.state, f": {state.why}" if state.why else "")
    for pod, why in unclear.items():
        if last.get(f"pod {pod}") != why:
            _log.warning("%s", why)
        now[f"pod {pod}"] = why
    last.clear()
    last.update(now)


def _check_names(label: str, prefix: str) -> None:
    if not re.fullmatch(r"(?:[a-z0-9.-]{1,253}/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", label):
        raise InputError("is not the name of a label", field="--label", value=label)
    if not re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?", prefix):
        raise InputError(
            "must be 1 to 32 lower-case letters, digits and hyphens, and begin and end with a letter or digit",
            field="--prefix",
            value=prefix,
        )


def _log_to_stderr() -> None:
    """Send the watcher's own lines to standard error, and no others: the HTTP clients log each request."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    _log.propagate = False


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    # At once: the thread that reads a watch would hold a lock at the end of the interpreter, which then aborts.
    sys.stderr.flush()
    os._exit(0)
