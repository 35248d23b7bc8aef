"""Classes of priority that starve on links of a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.cli.main import main
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.model.plan import Plan
from controller.model.units import GBIT
from controller.planning.make_plan import make_plan
from controller.workload.expand import combine, expand
from controller.workload.job_file import parse_job
from tests.unit.laws import examples

FABRIC = clos(2, 2, 4)
GBPS = float(FABRIC.link_gbps[0])


def job(name: str, calls: list[tuple[int, int, float, int]], compute: float | None = None) -> dict[str, Any]:
    """Return a job with a flow of these seconds and class from each of these hosts to another one."""
    flows = [
        {"src": f"h{src}", "dst": f"h{dst}", "bytes": round(send * GBPS / GBIT), "collective": f"x{i}"}
        for i, (src, dst, send, _) in enumerate(calls)
    ]
    classes = {f"x{i}": priority for i, (*_, priority) in enumerate(calls)}
    return {"name": name, "flows": flows, "classes": classes, "phases": {f"x{i}": i for i in range(len(calls))}} | (
        {} if compute is None else {"compute_seconds": compute}
    )


def planned(documents: list[dict[str, Any]], fabric: Fabric = FABRIC, policy: str = "ecmp") -> Plan:
    traffic = combine([expand(fabric, parse_job(each)) for each in documents])
    return make_plan(fabric, traffic, policy=policy, clock=lambda: 0.0)


CALLS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(5, 8), st.floats(0.05, 0.4), st.integers(0, 3)), min_size=1, max_size=3
)


@settings(max_examples=examples(15, 200), deadline=None)
@given(every=st.lists(st.tuples(CALLS, st.floats(0.0, 0.4)), min_size=1, max_size=4))
def test_a_class_starves_where_the_work_of_those_above_it_is_one_or_more(
    every: list[tuple[list[tuple[int, int, float, int]], float]],
) -> None:
    made = planned([job(f"j{n}", calls, compute) for n, (calls, compute) in enumerate(every)])
    paths = iter(made.assignment.path.tolist())
    work: dict[tuple[str, int], float] = {}
    for calls, compute in every:
        own: dict[tuple[str, int], float] = {}
        for src, dst, send, priority in calls:
            for link in FABRIC.flow_links(src - 1, dst - 1, next(paths)):
                key = FABRIC.link_ids[link], priority
                own[key] = own.get(key, 0.0) + send
        # One flow at a time, so that no link limits the job more than its flows alone.
        period = compute + sum(send for *_, send, _ in calls)
        for key, seconds in own.items():
            work[key] = work.get(key, 0.0) + seconds / period
    above = {(e, q): sum(work.get((e, higher), 0.0) for higher in range(q + 1, 4)) for e, q in work}
    near = {key for key, value in above.items() if abs(value - 1.0) < 1e-6}
    starved = {(each.link, each.priority): each.work for each in made.starved}
    assert starved.keys() - near == {key for key, value in above.items() if value >= 1.0} - near
    assert starved == pytest.approx({key: above[key] for key in starved}, rel=1e-6)
    works = [each.work for each in made.starved]
    assert works == sorted(works, reverse=True)


@settings(max_examples=examples(10, 100), deadline=None)
@given(calls=CALLS, compute=st.none() | st.floats(0.0, 0.4), alike=st.booleans())
def test_no_job_starves_a_class_of_its_own_while_it_runs_alone(
    calls: list[tuple[int, int, float, int]], compute: float | None, alike: bool
) -> None:
    document = job("a", calls, compute)
    if alike:
        # All at once: its flows fill links together.
        document["phases"] = {}
    assert planned([document]).starved == ()


def test_jobs_without_classes_starve_none() -> None:
    assert planned([job(name, [(1, 5, 0.1, 0)]) for name in "abc"]).starved == ()


def test_a_plan_says_in_one_line_which_class_starves(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fabric, files = tmp_path / "fabric.json", [tmp_path / f"{name}.json" for name in "abc"]
    fabric.write_text(json.dumps(fabric_document(clos(1, 2, 4))))
    for n, file in enumerate(files, start=1):
        file.write_text(json.dumps(job(file.stem, [(n, n + 4, 0.1, int(n < 3))], 0.1 if n < 3 else 0.2)))
    jobs = [part for file in files for part in ("--job", str(file))]
    with pytest.raises(SystemExit) as end:
        main(["plan", "--fabric", str(fabric), *jobs])
    assert not end.value.code
    assert capsys.readouterr().err == (
        "warning: class 0 starves down to its floor on leaf1->spine1: packets of the classes above need this link 1.00 "
        "of the time; 1 more on links\n"
    )
