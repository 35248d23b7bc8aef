"""``fairspine plan`` and ``fairspine compare``: plans without any switch."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.failure import Failure
from controller.cli.output import Format, FormatOption, number, print_json, print_table, seconds
from controller.model.errors import InputError

if TYPE_CHECKING:
    from controller.model.fabric import Fabric
    from controller.model.plan import Plan
    from controller.model.traffic import Traffic

FabricOption = Annotated[Path, typer.Option("--fabric", metavar="FILE", help="The fabric (YAML or JSON).")]
JobOption = Annotated[
    list[Path], typer.Option("--job", metavar="FILE", help="A job (JSON or YAML); may be given several times.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of policies that draw.")]


def plan(
    fabric: FabricOption,
    job: JobOption,
    policy: Annotated[str, typer.Option("--policy", help="The routing policy.")] = "fair",
    seed: SeedOption = 0,
    format: FormatOption = Format.TABLE,
) -> None:
    """Plan the paths of some jobs' flows, and say how good the plan is."""
    import orjson

    from controller.planning.plan_document import plan_document

    case = _Case.load(fabric, job)
    _check_policy(policy)
    _warm_up(policy)
    made = case.plan(policy, seed)
    document = plan_document(case.fabric, case.traffic, made)
    if format is Format.JSON:
        print_json(orjson.dumps(document))
    else:
        _print_plan(case, document)
    if len(made.unroutable):
        raise Failure(
            f"{len(made.unroutable)} of {case.traffic.n_flows} flows are unroutable, "
            f"the first is {case.traffic.flow_id(int(made.unroutable[0]))}"
        )


def compare(
    fabric: FabricOption,
    job: JobOption,
    policies: Annotated[str, typer.Option("--policies", help="Policies, with commas between.")] = "ecmp,greedy,fair",
    seed: SeedOption = 0,
    format: FormatOption = Format.TABLE,
) -> None:
    """Plan by several policies, a row each."""
    import orjson

    case = _Case.load(fabric, job)
    names = [name.strip() for name in policies.split(",")]
    for name in names:
        _check_policy(name)
    rows = []
    stranded = 0
    for name in names:
        _warm_up(name)
        made = case.plan(name, seed)
        stranded = len(made.unroutable)
        rows.append(_summary(case, made))
    if format is Format.JSON:
        print_json(orjson.dumps({"policies": rows}))
    else:
        print_table(
            f"{case.traffic.n_flows} flows, {len(case.traffic.collectives)} collectives",
            ("policy", "min speed>", "mean speed>", "gap>", "busiest link", "of it>", "pieces>", "time>"),
            (
                (
                    row["policy"],
                    number(row["min_speed"]),
                    number(row["mean_speed"]),
                    number(row["gap"]),
                    row["busiest_link"] or "-",
                    seconds(row["busiest_link_seconds"]),
                    str(row["pieces"]),
                    seconds(row["seconds"]),
                )
                for row in rows
            ),
        )
    if stranded:
        raise Failure(f"{stranded} of {case.traffic.n_flows} flows are unroutable")


@dataclass(frozen=True)
class _Case:
    """What is planned."""

    fabric: Fabric
    traffic: Traffic

    @staticmethod
    def load(fabric_file: Path, job_files: list[Path]) -> _Case:
        from controller.model.fabric_file import load_fabric
        from controller.workload.expand import JobTraffic, combine, expand
        from controller.workload.job_file import load_job

        fabric = load_fabric(fabric_file)
        jobs: list[JobTraffic] = []
        for path in job_files:
            job = load_job(path)
            try:
                if any(job.name == other.name for other in jobs):
                    raise InputError("another job has this name", field="name", value=job.name)
                jobs.append(expand(fabric, job, jobs))
            except InputError as error:
                raise error.with_source(str(path)) from None
        return _Case(fabric, combine(jobs))

    def plan(self, policy: str, seed: int) -> Plan:
        from controller.planning.make_plan import make_plan

        return make_plan(self.fabric, self.traffic, policy=policy, seed=seed, clock=time.perf_counter)

    @cached_property
    def flows_of(self) -> list[int]:
        """[K] number of flows of each collective."""
        import numpy as np

        counts: list[int] = np.bincount(self.traffic.collective, minlength=len(self.traffic.collectives)).tolist()
        return counts


def _check_policy(name: str) -> None:
    from controller.routing import POLICIES

    if name not in POLICIES:
        raise InputError(f"no policy has this name; there are {', '.join(POLICIES)}", field="policy", value=name)


def _warm_up(policy: str) -> None:
    """Load (or, the first time, compile) a policy's kernels, so that the time that is told is the policy's own."""
    import numpy as np

    from controller.model.fabric import clos
    from controller.model.traffic import Collective, Traffic
    from controller.routing import assign

    src, dst = np.nonzero(~np.eye(6, dtype=np.bool_))
    ones = np.ones(len(src), dtype=np.int32)
    number_of = np.arange(len(src), dtype=np.int32)
    traffic = Traffic(
        src.astype(np.int32),
        dst.astype(np.int32),
        np.arange(1, len(src) + 1, dtype=np.int64) * 10**6,
        (number_of >= 15).astype(np.int32),
        number_of,
        49152 * ones,
        (Collective("warm", "a"), Collective("up", "b")),
    )
    assign(policy, clos(2, 3, 2), traffic)


def _print_plan(case: _Case, document: dict[str, Any]) -> None:
    print_table(
        f"{document['policy']}: {case.traffic.n_flows} flows placed in {seconds(document['seconds'])}",
        ("min speed>", "min level>", "bound, split>", "bound, single>", "gap>", "unroutable>"),
        [
            (
                number(document["min_speed"]),
                number(document["min_level"]),
                number(document["bound_split"]),
                number(document["bound_single"]),
                number(document["gap"]),
                str(len(document["unroutable"])),
            )
        ],
    )
    print_collectives(document["collectives"], case.flows_of)
    first = case.fabric.first_cable_link
    busiest = sorted(document["links"][first:], key=lambda row: row["load_gbps"] / row["gbps"], reverse=True)
    print_table(
        "busiest links between leaves and spines, at these speeds",
        ("link", "Gbit/s>", "load>", "of it>"),
        (
            (row["id"], number(row["gbps"], 1), number(row["load_gbps"], 1), f"{row['load_gbps'] / row['gbps']:.0%}")
            for row in busiest[:8]
        ),
    )


def print_collectives(rows: list[dict[str, Any]], flows: list[int]) -> None:
    """A plan's collectives (or those of one job) as a table; ``flows``: how many each has."""
    print_table(
        "collectives",
        ("job", "collective", "flows>", "speed>", "time>", "alone>", "slowdown>"),
        (
            (
                row["job"],
                row["name"],
                str(count),
                number(row["speed"]),
                seconds(row["seconds"]),
                seconds(row["ideal_seconds"]),
                number(row["slowdown"]),
            )
            for row, count in zip(rows, flows, strict=True)
        ),
    )


def _summary(case: _Case, made: Plan) -> dict[str, Any]:
    """A row of ``compare``. The busiest link is the leaf-spine link that takes longest for all bytes that are put on
    it, whatever their collective and phase."""
    import numpy as np

    speed = made.objective.speed
    known = ~np.isnan(speed)
    busy = _link_seconds(case, made)
    first = case.fabric.first_cable_link
    busiest = first + int(np.argmax(busy[first:])) if len(busy) > first and busy[first:].max() > 0 else None
    return {
        "policy": made.policy,
        "min_speed": made.objective.min_speed,
        "mean_speed": float(speed[known].mean()) if known.any() else None,
        "gap": made.gap,
        "busiest_link": None if busiest is None else case.fabric.link_ids[busiest],
        "busiest_link_seconds": None if busiest is None else float(busy[busiest]),
        "pieces": made.assignment.n_rows,
        "unroutable": len(made.unroutable),
        "seconds": made.seconds,
    }


def _link_seconds(case: _Case, made: Plan) -> Any:
    """[E] seconds that each leaf-spine link takes for all bytes on it; 0 for hosts' links."""
    import numpy as np

    fabric, traffic = case.fabric, case.traffic
    rows = np.flatnonzero(made.assignment.path >= 0)
    flow, path = made.assignment.flow[rows], made.assignment.path[rows]
    gigabits = traffic.bytes[flow] * made.assignment.share[rows] * 8e-9
    up = fabric.up_link[fabric.host_leaf[traffic.src[flow]], path]
    down = fabric.down_link[fabric.host_leaf[traffic.dst[flow]], path]
    total = np.bincount(np.concatenate([up, down]), weights=np.tile(gigabits, 2), minlength=fabric.n_links)
    return total / fabric.link_gbps
