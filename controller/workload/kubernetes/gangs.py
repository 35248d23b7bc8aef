"""Kinds of objects that create the pods of one job, and the labels by which pods name their object and their rank.

A gang is a set of pods that run one job together: those of a JobSet, of a Volcano job, of a pod group of Kueue, or of
an Indexed Job. Kueue admits these kinds as well, and leaves the labels below alone. Sources: JobSet's API constants
(jobset.sigs.k8s.io), Volcano's (volcano.sh), Kueue's KEP 976 "plain pods", and Kubernetes' documentation of Jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from controller.model.errors import InputError

Labels = Mapping[str, str]


class Gang(NamedTuple):
    """The object whose pods run a job: the name of its kind, its namespace and its name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return the text that names the gang for users."""
        return f"{self.kind} {self.namespace}/{self.name}"


class RankPlace(NamedTuple):
    """A pod's place in its gang: the template that it is of, and its indices there, the most significant first."""

    template: str
    indices: tuple[int, ...]


class ObjectApi(NamedTuple):
    """Where the API server has the objects of a kind."""

    group: str
    version: str
    plural: str


@dataclass(frozen=True)
class GangKind:
    """A kind of objects that create pods.

    Attributes:
        name: the name, which is a part of the names of jobs.
        label: the label of pods that has the object's name.
        attempt: the label of pods that counts restarts of the whole gang; pods of earlier attempts end. Empty: none.
        place: returns a pod's place from its labels and annotations.
        api: where the object is; ``None``: there is no object, and pods tell how many they are.
        sizes: returns the number of pods of each template of the object that has a label, in the order of their ranks.
    """

    name: str
    label: str
    place: Callable[[Labels], RankPlace]
    api: ObjectApi | None
    sizes: Callable[[Mapping[str, Any], str], dict[str, int]]
    attempt: str = ""


TOTAL = "kueue.x-k8s.io/pod-group-total-count"
"""Annotation of the pods of a group of Kueue: the number of pods."""

_INDEX = "batch.kubernetes.io/job-completion-index"
_GROUP_INDEX = "kueue.x-k8s.io/pod-group-pod-index"
_GROUP_INDEX_LABEL = "kueue.x-k8s.io/pod-group-pod-index-label"


def _of_job(labels: Labels) -> RankPlace:
    if _INDEX not in labels:
        text = "is not there, so the pod's rank is unknown; a Job needs completionMode: Indexed"
        raise InputError(text, field=_INDEX)
    return RankPlace("", (number(labels, _INDEX),))


def _of_job_set(labels: Labels) -> RankPlace:
    template = labels.get("jobset.sigs.k8s.io/replicatedjob-name", "")
    return RankPlace(template, (number(labels, "jobset.sigs.k8s.io/job-index"), *_of_job(labels).indices))


def _of_volcano(labels: Labels) -> RankPlace:
    return RankPlace(labels.get("volcano.sh/task-spec", ""), (number(labels, "volcano.sh/task-index"),))


def _of_group(labels: Labels) -> RankPlace:
    return RankPlace("", (number(labels, labels.get(_GROUP_INDEX_LABEL, _GROUP_INDEX)),))


def number(labels: Labels, name: str) -> int:
    """Return the number that a label or an annotation contains.

    Raises:
        InputError: there is none.
    """
    value = labels.get(name)
    if value is None or not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise InputError("must be a number", field=name, value=value)
    return int(value)


def _pods_of_job(spec: Mapping[str, Any]) -> int:
    """Return the number of pods that a Job runs at once."""
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    for field, value in (("parallelism", parallelism), ("completions", completions)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise InputError("must be a number", field=f"spec.{field}", value=value)
    return int(parallelism if completions is None else min(parallelism, completions))


def _sizes_of_job(job: Mapping[str, Any], label: str) -> dict[str, int]:
    spec = _mapping(job, "spec")
    return {"": _pods_of_job(spec)} if _has_label(spec, label) else {}


def _sizes_of_job_set(job_set: Mapping[str, Any], label: str) -> dict[str, int]:
    sizes = {}
    for template in _rows(_mapping(job_set, "spec"), "replicatedJobs"):
        spec = _mapping(_mapping(template, "template"), "spec")
        if _has_label(spec, label):
            sizes[str(template.get("name", ""))] = int(template.get("replicas", 1)) * _pods_of_job(spec)
    return sizes


def _sizes_of_volcano(job: Mapping[str, Any], label: str) -> dict[str, int]:
    return {
        str(task.get("name", "")): int(task.get("replicas", 1))
        for task in _rows(_mapping(job, "spec"), "tasks")
        if _has_label(task, label)
    }


def _has_label(owner: Mapping[str, Any], label: str) -> bool:
    """Return whether the pods of a template (``owner["template"]``) have a label."""
    labels = _mapping(_mapping(owner, "template"), "metadata").get("labels") or {}
    return label in labels


def _mapping(owner: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = owner.get(field) or {}
    if not isinstance(value, Mapping):
        raise InputError("must be an object", field=field, value=value)
    return value


def _rows(owner: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    value = owner.get(field) or []
    if not isinstance(value, list) or not all(isinstance(row, Mapping) for row in value):
        raise InputError("must be a list of objects", field=field, value=value)
    return value


KINDS = {
    kind.name: kind
    for kind in (
        GangKind(
            "jobset",
            "jobset.sigs.k8s.io/jobset-name",
            _of_job_set,
            ObjectApi("jobset.x-k8s.io", "v1alpha2", "jobsets"),
            _sizes_of_job_set,
            "jobset.sigs.k8s.io/restart-attempt",
        ),
        GangKind(
            "volcano",
            "volcano.sh/job-name",
            _of_volcano,
            ObjectApi("batch.volcano.sh", "v1alpha1", "jobs"),
            _sizes_of_volcano,
            "volcano.sh/job-version",
        ),
        GangKind("podgroup", "kueue.x-k8s.io/pod-group-name", _of_group, None, lambda _, __: {}),
        # Last: the pods of a JobSet are those of Jobs, too.
        GangKind("job", "batch.kubernetes.io/job-name", _of_job, ObjectApi("batch", "v1", "jobs"), _sizes_of_job),
    )
}
"""By name, in the order in which the labels of a pod are looked at."""
