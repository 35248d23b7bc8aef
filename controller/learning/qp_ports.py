"""Ports of QPs that were seen without them: hosts tell which QPs their programs have open, and from which ports.

A feeder that knows bytes but no ports (NCCL Inspector) gives jobs whose flows hosts alone tell apart. Where the library
under programs tells the agent of a host which QPs these have connected, each of them is a flow of its own.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from controller.learning.learned_job import LearnedGroup, LearnedJob
from controller.learning.sightings import QpKey
from controller.model.choices.protocol import ROCE
from controller.model.traffic import ANY_PORT


class OpenQp(NamedTuple):
    """A connected QP.

    Attributes:
        dst_qp: the QP number at the receiver.
        udp_src: the source port by which plans know its flow.
        port: the source port of its packets.
    """

    dst_qp: int
    udp_src: int
    port: int


OpenQps = Mapping[tuple[int, int], Sequence[OpenQp]]
"""The open QPs by the addresses of sender and receiver, as numbers."""


def with_ports(job: LearnedJob, known: OpenQps) -> LearnedJob:
    """Return a job with the ports of its QPs; it stays as it is unless all of them are known.

    A QP that was seen by the number of an open one has its port. Others stand for all QPs of their hosts, which share
    their bytes evenly, as NCCL spreads them over the QPs of a connection.
    """
    lacking = {(key.src, key.dst) for key in job.qps if key.udp_src == ANY_PORT}
    if not lacking or job.protocol != ROCE or not all(known.get(pair) for pair in lacking):
        return job
    return dataclasses.replace(job, groups=tuple(_group(group, known) for group in job.groups))


def as_open(job: LearnedJob, known: OpenQps) -> LearnedJob:
    """Return a job of the QPs that are open now, where hosts tell of these: those that were seen may have moved.

    A QP is known by its number or by its port. One of neither has ended, or sends from another port by now, under which
    it is seen as well. Of hosts that tell of no QP between them all stay, as do those that were seen without a port.
    """
    if job.protocol != ROCE:
        return job
    return dataclasses.replace(job, groups=tuple(_open_group(group, known) for group in job.groups))


def _open_group(group: LearnedGroup, known: OpenQps) -> LearnedGroup:
    sizes: dict[QpKey, int] = {}
    for key, size in zip(group.qps, group.bytes, strict=True):
        of_pair = known.get((key.src, key.dst), ())
        same = [each for each in of_pair if each.dst_qp == key.dst_qp]
        if len(same) != 1:
            same = [each for each in of_pair if key.udp_src in (each.port, each.udp_src)]
        if len(same) == 1:
            key = key._replace(udp_src=same[0].udp_src, dst_qp=same[0].dst_qp)
        elif of_pair and key.udp_src != ANY_PORT:
            continue
        sizes[key] = max(sizes.get(key, 0), size)
    qps = sorted(sizes)
    return dataclasses.replace(group, qps=tuple(qps), bytes=tuple(sizes[key] for key in qps)) if qps else group


def is_open(job: LearnedJob, known: OpenQps) -> bool:
    """Return whether hosts tell that all QPs of a job are open; TCP needs none."""
    numbers = {pair: {each.dst_qp for each in qps} for pair, qps in known.items()}
    return job.protocol != ROCE or all(key.dst_qp in numbers.get((key.src, key.dst), ()) for key in job.qps)


def in_order(job: LearnedJob) -> LearnedJob:
    """Return a job whose QPs have their places among those of their hosts for ports, from 1: what moves keeps these."""
    of_pair: dict[tuple[int, int], list[QpKey]] = defaultdict(list)
    for key in sorted(job.qps, key=lambda key: (key.dst_qp, key.udp_src)):
        of_pair[key.src, key.dst].append(key)
    named = {key: key._replace(udp_src=place) for keys in of_pair.values() for place, key in enumerate(keys, start=1)}
    groups = (dataclasses.replace(group, qps=tuple(named[key] for key in group.qps)) for group in job.groups)
    return dataclasses.replace(job, groups=tuple(groups)) if job.protocol == ROCE else job


def _group(group: LearnedGroup, known: OpenQps) -> LearnedGroup:
    sizes: Counter[QpKey] = Counter()
    for key, size in zip(group.qps, group.bytes, strict=True):
        for part, share in zip(parts := _parts(key, known), _even(size, len(parts)), strict=True):
            sizes[part] += share
    qps = sorted(sizes)
    return dataclasses.replace(group, qps=tuple(qps), bytes=tuple(sizes[key] for key in qps))


def _parts(key: QpKey, known: OpenQps) -> list[QpKey]:
    if key.udp_src != ANY_PORT:
        return [key]
    of_pair = known[key.src, key.dst]
    same = [each for each in of_pair if each.dst_qp == key.dst_qp]
    return [key._replace(udp_src=each.udp_src, dst_qp=each.dst_qp) for each in (same if len(same) == 1 else of_pair)]


def _even(size: int, parts: int) -> list[int]:
    """Return parts of a size that differ by one at most; each has a byte, as a flow without bytes is none."""
    return [max(size * (n + 1) // parts - size * n // parts, 1) for n in range(parts)]
