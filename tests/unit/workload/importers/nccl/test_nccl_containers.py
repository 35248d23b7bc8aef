"""Containers that share hostname and process ids are distinguished by their files, or refused."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from tests.unit.laws import examples
from tests.unit.workload.importers.nccl.nccl_logs import STYLES, Cluster, Style, clusters, logs
from tests.unit.workload.importers.nccl.nccl_runs import SMALL, run, sent


def alike(cluster: Cluster, texts: list[str], *, gpu: bool) -> list[str]:
    """The logs of containers that all are ``pod``, and whose processes have ids by GPU; or one id, and one GPU."""
    found = []
    for rank, text in enumerate(texts):
        device = 0 if gpu else rank % cluster.gpus
        found.append(re.sub(r"node\d+:\d+:\d+ \[\d+\]", f"pod:{7 + device}:{9 + device} [{device}]", text))
    return [text.replace(f"cudaDev {r % cluster.gpus} ", "cudaDev 0 ") if gpu else text for r, text in enumerate(found)]


@settings(deadline=None, max_examples=examples(20, 120))
@given(cluster=clusters(least=2, own_nics=True), style=st.sampled_from(STYLES[:5]), gpu=st.booleans())
def test_one_file_per_container_distinguishes_them(cluster: Cluster, style: Style, gpu: bool) -> None:
    texts = logs(cluster, style)
    try:
        imported = run(alike(cluster, texts, gpu=gpu))
    except InputError as error:
        # One GPU a server: nothing tells how many ranks a server has but the GPU's position, which is one for all.
        assert "this hostname is used by several servers" in error.reason
        return
    assert sent(imported.job) == sent(run(texts).job)


def test_one_file_of_all_containers_is_refused_with_what_to_give() -> None:
    texts = alike(SMALL, logs(SMALL, STYLES[3]), gpu=False)
    with pytest.raises(
        InputError, match=r"^rank0.log:\d+: GPU 0 of pod:7 is rank 0 at rank0.log:\d+ and rank 2 here"
    ) as at:
        run(["".join(texts)])
    assert "use a separate log file for each container" in at.value.reason


def test_one_process_with_several_gpus_is_one_process() -> None:
    texts = [re.sub(r"(node\d+):\d+:(\d+)", r"\1:7:\2", text) for text in logs(SMALL, STYLES[3])]
    for sources in (texts, ["".join(texts)]):
        assert sent(run(sources).job) == sent(run(logs(SMALL, STYLES[3])).job)


def test_addresses_distinguish_the_servers_of_containers() -> None:
    cluster = dataclasses.replace(SMALL, gpus=2)
    texts = logs(cluster, STYLES[3])
    containers = [
        f"pod:{7 + rank % 2}:{9 + rank % 2} [{rank % 2}] NCCL INFO Bootstrap : Using eth0:10.0.0.{rank // 2}<0>\n{text}"
        for rank, text in enumerate(alike(cluster, texts, gpu=False))
    ]
    containers = [text.replace("busId 1", f"busId {rank // 2 + 2}") for rank, text in enumerate(containers)]
    assert sent(run(containers).job) == sent(run(texts).job)
