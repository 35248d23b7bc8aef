"""The input of the packet engine: plain text, a line for each thing (docs/reference/referee.md)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from enum import StrEnum

import numpy as np

from controller.model.fabric import Fabric
from controller.model.paces import HEADERS
from controller.model.traffic import Traffic
from emulation.fluid.schedule import JobSchedule, SimulatedJob, joined
from emulation.fluid.simulator import LinkChange
from emulation.packets.host_steps import goes_on_when_posted
from emulation.packets.settings import ACK_BYTES, BITS, PacketSettings

TIMEOUT_ROUND_TRIPS = 20
"""Round trips without any acknowledgement after which everything in flight is sent again."""


class PacketSpread(StrEnum):
    """How the packets of a connection are spread over its paths.

    ``PINNED``: they are not. ``RANDOM``: the sender draws a path for each packet (oblivious spraying). ``ROUND_ROBIN``:
    the sender takes the paths in turn. ``ADAPTIVE``: each switch takes the emptiest of its outputs that lead there.
    ``REPS``: the sender takes paths again that were acknowledged without a mark, and draws others (Recycled Entropy
    Packet Spraying, arXiv 2407.21625).
    """

    PINNED = "pinned"
    RANDOM = "random"
    ROUND_ROBIN = "round_robin"
    ADAPTIVE = "adaptive"
    REPS = "reps"


def write_input(
    fabric: Fabric,
    jobs: Sequence[SimulatedJob],
    settings: PacketSettings,
    *,
    spread: PacketSpread = PacketSpread.PINNED,
    changes: Sequence[LinkChange] = (),
    seed: int = 0,
    until: float = math.inf,
) -> str:
    """Return the input for these jobs. Rows of flows are not in it: the engine asks for them."""
    traffic, schedule, _ = joined(jobs)
    lines = [
        *_settings(fabric, settings, seed, until),
        *_cables(fabric, settings.cable_seconds),
        *(f"job {job.compute_seconds!r} {job.epochs} {job.start!r}" for job in jobs),
        *_groups(traffic, schedule, np.repeat(np.arange(len(jobs)), [job.schedule.n_groups for job in jobs]).tolist()),
        *_flows(fabric, traffic, spread),
        *_transfers(schedule),
        *_changes(fabric, changes),
    ]
    return "\n".join(lines) + "\n"


def _settings(fabric: Fabric, settings: PacketSettings, seed: int, until: float) -> Iterator[str]:
    product = settings.delay_product(fabric)
    room = settings.queue * product
    window = product / settings.packet_bytes + settings.ack_every
    values = {
        "mtu": settings.packets.mtu,
        "headers": HEADERS + settings.packets.growth,
        "ack_bytes": ACK_BYTES,
        "ack_every": settings.ack_every,
        "queue_bytes": round(room),
        "mark_from": round(settings.mark_from * room),
        "mark_all": round(settings.mark_all * room),
        "window": window,
        "most_window": 1.5 * window,
        "pace_window": settings.pace_window * settings.round_trip_seconds(fabric),
        "meter_bytes": max(settings.packet_bytes, round(settings.meters * product)) if settings.meters else 0,
        "timeout": TIMEOUT_ROUND_TRIPS * settings.round_trip_seconds(fabric),
        "until": min(until, 1e6),
        "bin": settings.bin_seconds,
        "seed": seed,
        "record_transfers": int(settings.record_transfers),
        "asks": 1,
        "control": settings.control,
        "recovery": settings.recovery,
    }
    for name, value in values.items():
        yield f"set {name} {value}"


def _cables(fabric: Fabric, delay: float) -> Iterator[str]:
    """Yield a line for each cable: both nodes (hosts first), both links, bit/s, delay, whether it is up."""
    first = np.cumsum([fabric.n_hosts, *(len(layer) for layer in fabric.layers)]).tolist()
    gbps, up = fabric.link_gbps.tolist(), fabric.link_up.tolist()

    def line(lower: int, upper: int, there: int, back: int) -> str:
        return f"cable {lower} {upper} {there} {back} {gbps[there] * BITS!r} {delay!r} {int(up[there])}"

    for h, leaf in enumerate(fabric.host_leaf.tolist()):
        yield line(h, first[0] + leaf, h, fabric.n_hosts + h)
    ends = zip(fabric.cable_tier.tolist(), fabric.cable_lower.tolist(), fabric.cable_upper.tolist(), strict=True)
    for c, (tier, lower, upper) in enumerate(ends):
        link = fabric.first_cable_link + 2 * c
        yield line(first[tier] + lower, first[tier + 1] + upper, link, link + 1)


def _groups(traffic: Traffic, schedule: JobSchedule, job_of: Sequence[int]) -> Iterator[str]:
    """Yield a line for each group: job, runs, delay, lane, whether hosts go on by themselves, groups it waits for.

    Behind them, those of which it only waits until their bytes are handed to the same connections, if there are any.
    """
    before: list[list[int]] = [[] for _ in range(schedule.n_groups)]
    posted: list[list[int]] = [[] for _ in range(schedule.n_groups)]
    waits = zip(
        schedule.before.tolist(), schedule.after.tolist(), goes_on_when_posted(traffic, schedule).tolist(), strict=True
    )
    for earlier, later, early in waits:
        (posted if early else before)[later].append(earlier)
    columns = zip(job_of, schedule.repeat.tolist(), schedule.delay.tolist(), schedule.lanes.tolist(), strict=True)
    for g, (job, repeat, delay, lane) in enumerate(columns):
        # Without any of the latter the line is that of former versions, as kept inputs have it.
        lists = (before[g], posted[g]) if posted[g] else (before[g],)
        numbers = " ".join(str(number) for each in lists for number in (len(each), *each))
        yield f"group {job} {repeat} {delay!r} {lane} {int(repeat > 1)} {numbers}"


def _flows(fabric: Fabric, traffic: Traffic, spread: PacketSpread) -> Iterator[str]:
    """Yield a line for each flow: key, spread, source, destination, and its class of priority if that is not 0.

    The key does not depend on the order of jobs.
    """
    columns = zip(
        traffic.src.tolist(), traffic.dst.tolist(), traffic.collective.tolist(), traffic.number.tolist(), strict=True
    )
    for src, dst, k, number in columns:
        row = traffic.collectives[k]
        names = (row.job, row.name, fabric.host_names[src], fabric.host_names[dst], number)
        key = int.from_bytes(hashlib.blake2b(repr(names).encode(), digest_size=7).digest())
        # Without a class the line is that of former versions, as kept inputs have it.
        yield f"flow {key} {spread} {src} {dst}" + (f" {row.priority}" if row.priority else "")


def _transfers(schedule: JobSchedule) -> Iterator[str]:
    columns = zip(schedule.group.tolist(), schedule.flow.tolist(), schedule.bytes.tolist(), strict=True)
    for group, flow, size in columns:
        yield f"transfer {group} {flow} {max(1, round(size))}"


def _changes(fabric: Fabric, changes: Sequence[LinkChange]) -> Iterator[str]:
    """Yield a line for each link whose state differs after a change: seconds, link, whether it is up."""
    failed: dict[str, None] = {}
    now = fabric
    for change in sorted(changes, key=lambda each: each.at):
        for name in change.names:
            if change.up:
                failed.pop(name, None)
            else:
                failed[name] = None
        then = fabric.without_links(list(failed))
        for link in np.flatnonzero(then.link_up != now.link_up).tolist():
            yield f"change {change.at!r} {link} {int(then.link_up[link])}"
        now = then
