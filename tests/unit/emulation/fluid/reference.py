"""A second simulator: everything filled anew at every event, in plain Python, no sharing of code with the first."""

from __future__ import annotations

from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from emulation.fluid.schedule import JobSchedule

GBIT = 8e-9


def fill(users: list[dict[int, float]], capacity: list[float]) -> list[float]:
    """Max-min fair rates of users, each with its load on links at rate 1 (progressive filling, all links each time)."""
    rate = [-1.0] * len(users)
    while any(r < 0 for r in rate):
        settled, slope = [0.0] * len(capacity), [0.0] * len(capacity)
        for load, r in zip(users, rate, strict=True):
            for link, x in load.items():
                settled[link] += max(r, 0.0) * x
                slope[link] += x if r < 0 else 0.0
        # All rates rise together: they are those of the link that is full first.
        t, full = min(((capacity[e] - settled[e]) / slope[e], e) for e in range(len(capacity)) if slope[e] > 0)
        rate = [max(0.0, t) if r < 0 and full in load else r for load, r in zip(users, rate, strict=True)]
    return rate


def epoch_ends(
    fabric: Fabric, traffic: Traffic, schedule: JobSchedule, path: list[int]
) -> list[tuple[int, int, float]]:
    """(group, run, end) of one epoch from time 0, in order; a flow at a time, one path each."""
    transfers: dict[int, list[tuple[dict[int, float], float]]] = {g: [] for g in range(schedule.n_groups)}
    for g, f, size in zip(schedule.group.tolist(), schedule.flow.tolist(), schedule.bytes.tolist(), strict=True):
        src, dst = int(traffic.src[f]), int(traffic.dst[f])
        links = fabric.flow_links(src, dst, path[f])
        transfers[g].append((dict.fromkeys(links, 1.0), size * GBIT))
    waits = {g: int((schedule.after == g).sum()) for g in range(schedule.n_groups)}
    now, ends, run = 0.0, [], dict.fromkeys(range(schedule.n_groups), 0)
    moving: list[list[object]] = []  # [group, load, left]
    sleeping: list[tuple[float, int]] = []

    def start(g: int) -> None:
        moving.extend([g, load, left] for load, left in transfers[g])
        if not transfers[g]:
            over(g)

    def over(g: int) -> None:
        ends.append((g, run[g], now))
        run[g] += 1
        if run[g] < schedule.repeat[g] and transfers[g]:
            start(g)
            return
        for before, after in zip(schedule.before.tolist(), schedule.after.tolist(), strict=True):
            if before == g:
                waits[after] -= 1
                if waits[after] == 0:
                    begin(after)

    def begin(g: int) -> None:
        if schedule.delay[g] > 0:
            sleeping.append((now + float(schedule.delay[g]), g))
        else:
            start(g)

    for g in [g for g, n in waits.items() if n == 0]:
        begin(g)
    while moving or sleeping:
        rates = fill([m[1] for m in moving], fabric.link_gbps.tolist())  # type: ignore[misc]
        through = [m[2] / r for m, r in zip(moving, rates, strict=True)]  # type: ignore[operator]
        awake = min((at for at, _ in sleeping), default=float("inf"))
        step = min([*through, awake - now])
        for m, r in zip(moving, rates, strict=True):
            m[2] -= r * step  # type: ignore[operator]
        now += step
        done = [m for m, t in zip(moving, through, strict=True) if t <= step * (1 + 1e-9) + 1e-15]
        moving = [m for m in moving if all(m is not d for d in done)]
        for g in sorted({m[0] for m in done}):  # type: ignore[type-var]
            if all(m[0] != g for m in moving):
                over(g)  # type: ignore[arg-type]
        for at, g in [s for s in sleeping if s[0] <= now * (1 + 1e-12)]:
            sleeping.remove((at, g))
            start(g)
    return ends
