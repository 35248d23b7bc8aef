"""Objects of Kubernetes' API: JobSets, Volcano jobs, pod groups and Jobs, and the pods that their controllers make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

LABEL = "fairspine-job"
GPU = "nvidia.com/gpu"

Object = dict[str, Any]


class Template(NamedTuple):
    """A template of pods: its name, the number of Jobs (of a JobSet), the pods of each, and whether it trains."""

    name: str
    replicas: int
    pods: int
    trains: bool = True


def pod(
    namespace: str, name: str, labels: dict[str, str], gpus: int = 8, annotations: dict[str, str] | None = None
) -> Object:
    """Return a pod that waits for a node."""
    limits = {"cpu": "64", **({GPU: str(gpus)} if gpus else {})}
    return {
        "metadata": {"namespace": namespace, "name": name, "labels": labels, "annotations": annotations or {}},
        "spec": {
            "containers": [
                {"name": "train", "resources": {"limits": limits, "requests": limits}},
                {"name": "log", "resources": {}},
            ]
        },
        "status": {"phase": "Pending"},
    }


def node(name: str, gpus: int = 8) -> Object:
    """Return a node with some accelerators."""
    return {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "128", GPU: str(gpus)}}}


def bound(waiting: Object, to: str) -> Object:
    """Return the pod on a node."""
    return {**waiting, "spec": {**waiting["spec"], "nodeName": to}, "status": {"phase": "Running"}}


def ended(running: Object, phase: str = "Failed") -> Object:
    """Return the pod after its end."""
    return {**running, "status": {"phase": phase}}


def _labels(description: str, trains: bool) -> dict[str, str]:
    return {LABEL: description} if trains else {}


def job_set(
    namespace: str, name: str, description: str, templates: Sequence[Template], gpus: int = 8, attempt: int = 0
) -> tuple[Object, list[Object]]:
    """Return a JobSet and its pods, in the order of ranks."""
    spec = {
        "replicatedJobs": [
            {
                "name": each.name,
                "replicas": each.replicas,
                "template": {
                    "spec": {
                        "parallelism": each.pods,
                        "completions": each.pods,
                        "completionMode": "Indexed",
                        "template": {"metadata": {"labels": _labels(description, each.trains)}},
                    }
                },
            }
            for each in templates
        ]
    }
    pods = [
        pod(
            namespace,
            f"{name}-{each.name}-{job}-{index}-a{attempt}",
            {
                **_labels(description, each.trains),
                "batch.kubernetes.io/job-completion-index": str(index),
                "batch.kubernetes.io/job-name": f"{name}-{each.name}-{job}",
                "job-name": f"{name}-{each.name}-{job}",
                "jobset.sigs.k8s.io/job-index": str(job),
                "jobset.sigs.k8s.io/jobset-name": name,
                "jobset.sigs.k8s.io/replicatedjob-name": each.name,
                "jobset.sigs.k8s.io/replicatedjob-replicas": str(each.replicas),
                "jobset.sigs.k8s.io/restart-attempt": str(attempt),
                "kueue.x-k8s.io/podset": each.name,
            },
            gpus,
        )
        for each in templates
        for job in range(each.replicas)
        for index in range(each.pods)
    ]
    return {"metadata": {"namespace": namespace, "name": name}, "spec": spec}, pods


def volcano_job(
    namespace: str, name: str, description: str, templates: Sequence[Template], gpus: int = 8
) -> tuple[Object, list[Object]]:
    """Return a Volcano job and its pods, in the order of ranks."""
    spec = {
        "tasks": [
            {
                "name": each.name,
                "replicas": each.replicas * each.pods,
                "template": {"metadata": {"labels": _labels(description, each.trains)}},
            }
            for each in templates
        ]
    }
    pods = [
        pod(
            namespace,
            f"{name}-{each.name}-{index}",
            {
                **_labels(description, each.trains),
                "volcano.sh/job-name": name,
                "volcano.sh/task-spec": each.name,
                "volcano.sh/task-index": str(index),
            },
            gpus,
            {"volcano.sh/job-version": "0", "scheduling.k8s.io/group-name": f"{name}-1"},
        )
        for each in templates
        for index in range(each.replicas * each.pods)
    ]
    return {"metadata": {"namespace": namespace, "name": name}, "spec": spec}, pods


def indexed_job(
    namespace: str, name: str, description: str, templates: Sequence[Template], gpus: int = 8
) -> tuple[Object, list[Object]]:
    """Return a Job with as many pods as all templates that train, and its pods, in the order of ranks."""
    count = sum(each.replicas * each.pods for each in templates if each.trains)
    labels = _labels(description, trains=True)
    spec = {
        "parallelism": count,
        "completions": count,
        "completionMode": "Indexed",
        "template": {"metadata": {"labels": labels}},
    }
    pods = [
        pod(
            namespace,
            f"{name}-{index}-x{index * 7919 % 104729}",
            {**labels, "batch.kubernetes.io/job-completion-index": str(index), "batch.kubernetes.io/job-name": name},
            gpus,
        )
        for index in range(count)
    ]
    return {"metadata": {"namespace": namespace, "name": name}, "spec": spec}, pods


def pod_group(
    namespace: str, name: str, description: str, templates: Sequence[Template], gpus: int = 8
) -> tuple[Object, list[Object]]:
    """Return an empty object, since a pod group of Kueue has none that is asked for, and its pods by rank."""
    count = sum(each.replicas * each.pods for each in templates if each.trains)
    pods = [
        pod(
            namespace,
            f"{name}-{chr(97 + (count - index) % 26)}{index}",
            {
                **_labels(description, trains=True),
                "kueue.x-k8s.io/pod-group-name": name,
                "kueue.x-k8s.io/pod-group-pod-index": str(index),
            },
            gpus,
            {"kueue.x-k8s.io/pod-group-total-count": str(count)},
        )
        for index in range(count)
    ]
    return {}, pods


Maker = Callable[[str, str, str, Sequence[Template], int], tuple[Object, list[Object]]]

MAKERS: dict[str, Maker] = {"jobset": job_set, "volcano": volcano_job, "job": indexed_job, "podgroup": pod_group}
"""By the name of the kind."""
