"""Ranks of pods on hosts: whatever the kind of gang, the order in which pods are read, and the nodes that they have."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.workload.kubernetes.gangs import KINDS, Gang
from controller.workload.kubernetes.pods import Pod, read_pod
from controller.workload.kubernetes.seats import hosts_of_ranks, in_rank_order, present
from tests.rig.kubernetes.objects import LABEL, MAKERS, Object, Template, bound, ended, indexed_job, job_set

SEEDS = st.integers(0, 2**32 - 1)
NICS = 8


class Drawn:
    """A gang of a drawn kind on drawn nodes, and the hosts of its ranks as the numbers of pods give them."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = random.Random(seed)
        self.kind = draw.choice(sorted(MAKERS))
        self.per_node = draw.choice((1, 1, 2, 4, 8))
        gpus = NICS // self.per_node
        # Names in an order that is not that of the ranks.
        names = draw.sample(("worker", "actor", "zeta", "beta"), draw.randint(1, 3))
        templates = [Template(name, draw.randint(1, 3), draw.randint(1, 5)) for name in names]
        if self.kind in ("jobset", "volcano"):
            templates.insert(draw.randint(0, len(templates)), Template("driver", 1, 1, trains=False))
        owner, made = MAKERS[self.kind]("team-a", "llm", "gpt3", templates, gpus)
        training = [pod for pod in made if LABEL in pod["metadata"]["labels"]]
        seats = [f"n{node}" for node in range(-(-len(training) // self.per_node)) for _ in range(self.per_node)]
        seats = seats[: len(training)]
        draw.shuffle(seats)
        self.documents = [bound(pod, to) for pod, to in zip(training, seats, strict=True)]
        self.nics = {name: [f"{name}-{rail}" for rail in range(NICS)] for name in set(seats)}
        self.whole = all(seats.count(name) == self.per_node for name in self.nics)
        used = dict.fromkeys(self.nics, 0)
        self.expected = []
        for name in seats:
            self.expected += self.nics[name][used[name] : used[name] + gpus]
            used[name] += gpus
        self.owner = owner

    def sizes(self, pods: list[Pod]) -> dict[str, int]:
        kind = KINDS[self.kind]
        return {"": pods[0].total or 0} if kind.api is None else kind.sizes(self.owner, LABEL)

    def read(self) -> list[Pod]:
        """Read the pods in a drawn order, as an API server may list them."""
        shuffled = self.draw.sample(self.documents, len(self.documents))
        return [read_pod(document, LABEL) for document in shuffled]


@given(SEEDS)
def test_ranks_are_on_the_nics_of_their_pods_in_the_order_of_the_gang(seed: int) -> None:
    drawn = Drawn(seed)
    pods = present(drawn.read())
    assert {pod.gang for pod in pods} == {Gang(drawn.kind, "team-a", "llm")}
    ranked = in_rank_order(pods, drawn.sizes(pods))
    assert ranked is not None
    accelerators = dict.fromkeys(drawn.nics, NICS)
    if drawn.whole:
        assert list(hosts_of_ranks(ranked, accelerators, drawn.nics)) == drawn.expected
    else:
        with pytest.raises(InputError, match="Kubernetes does not tell which"):
            hosts_of_ranks(ranked, accelerators, drawn.nics)


@given(SEEDS, st.sampled_from(["missing", "unbound", "failed", "deleted"]))
def test_a_gang_without_all_of_its_pods_on_nodes_waits(seed: int, fault: str) -> None:
    drawn = Drawn(seed)
    victim = drawn.draw.randrange(len(drawn.documents))
    sizes = drawn.sizes([read_pod(drawn.documents[0], LABEL)])
    document = drawn.documents[victim]
    if fault == "missing":
        del drawn.documents[victim]
    elif fault == "unbound":
        spec = {key: value for key, value in document["spec"].items() if key != "nodeName"}
        drawn.documents[victim] = {**document, "spec": spec}
    elif fault == "failed":
        drawn.documents[victim] = ended(document, drawn.draw.choice(("Failed", "Succeeded")))
    else:
        metadata = {**document["metadata"], "deletionTimestamp": "2026-11-27T10:00:00Z"}
        drawn.documents[victim] = {**document, "metadata": metadata}
    assert in_rank_order(present(drawn.read()), sizes) is None


@given(SEEDS)
def test_a_restarted_gang_is_its_latest_attempt(seed: int) -> None:
    draw = random.Random(seed)
    templates = [Template("worker", draw.randint(1, 3), draw.randint(1, 3))]
    documents: list[Object] = []
    last: list[Object] = []
    for attempt in range(draw.randint(1, 12)):
        owner, made = job_set("a", "b", "c", templates, 8, attempt)
        last = [bound(pod, f"n{number}-{attempt}") for number, pod in enumerate(made)]
        documents += last
    sizes = KINDS["jobset"].sizes(owner, LABEL)
    pods = present([read_pod(pod, LABEL) for pod in draw.sample(documents, len(documents))])
    ranked = in_rank_order(pods, sizes)
    assert ranked is not None
    assert [pod.node for pod in ranked] == [pod["spec"]["nodeName"] for pod in last]


def _ranked(*nodes: str, gpus: int = 8) -> list[Pod]:
    owner, made = indexed_job("a", "b", "c", [Template("w", 1, len(nodes))], gpus)
    pods = [read_pod(bound(pod, to), LABEL) for pod, to in zip(made, nodes, strict=True)]
    ranked = in_rank_order(pods, KINDS["job"].sizes(owner, LABEL))
    assert ranked is not None
    return ranked


def test_a_pod_without_accelerators_has_its_whole_node() -> None:
    nics = {"n1": ["a", "b"], "n2": ["c", "d"]}
    assert hosts_of_ranks(_ranked("n2", "n1", gpus=0), {"n1": 0, "n2": 0}, nics) == ("c", "d", "a", "b")


def test_what_nodes_do_not_allow_names_the_node() -> None:
    nics = {"n1": ["a", "b", "c"]}
    for nodes, gpus, accelerators, reason in (
        (("n9",), 8, 8, "node: 'n9': the fabric has no server of this name"),
        (("n1",), 4, 8, "node: 'n1': the job has 4 of its 8 accelerators"),
        (("n1", "n1"), 4, 8, "node: 'n1': its 3 NICs cannot be shared equally by 2 pods"),
    ):
        with pytest.raises(InputError, match=reason):
            hosts_of_ranks(_ranked(*nodes, gpus=gpus), dict.fromkeys(nodes, accelerators), nics)


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({}, "belongs to no job"),
        ({"batch.kubernetes.io/job-name": "x"}, "completionMode: Indexed"),
        ({"volcano.sh/job-name": "x", "volcano.sh/task-index": "-1"}, "volcano.sh/task-index: '-1': must be a number"),
        ({"kueue.x-k8s.io/pod-group-name": "x"}, "kueue.x-k8s.io/pod-group-pod-index: must be a number"),
        (
            {"kueue.x-k8s.io/pod-group-name": "x", "kueue.x-k8s.io/pod-group-pod-index": "0"},
            "kueue.x-k8s.io/pod-group-total-count: must be a number",
        ),
    ],
)
def test_a_pod_that_does_not_tell_its_rank_is_refused_by_name(labels: dict[str, str], reason: str) -> None:
    document = {"metadata": {"namespace": "a", "name": "b", "labels": {LABEL: "c", **labels}}}
    with pytest.raises(InputError, match=f"(pod a/b: {reason}|pod: 'a/b': {reason}|pod a/b: .*{reason})"):
        read_pod(document, LABEL)


def test_two_pods_of_one_rank_and_of_two_descriptions_are_refused() -> None:
    owner, made = indexed_job("a", "b", "c", [Template("w", 1, 2)])
    sizes = KINDS["job"].sizes(owner, LABEL)
    first, second = (bound(pod, "n1") for pod in made)
    twin = {**first, "metadata": {**first["metadata"], "name": "twin"}}
    with pytest.raises(InputError, match="pod: 'twin': has the rank of"):
        in_rank_order([read_pod(pod, LABEL) for pod in (first, second, twin)], sizes)
    second["metadata"]["labels"][LABEL] = "other"
    with pytest.raises(InputError, match="'other': names another description than"):
        in_rank_order([read_pod(pod, LABEL) for pod in (first, second)], sizes)
