"""``fairspine survive``: failures in tables and JSON, and its refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.running import EXAMPLES, FABRIC

JOBS = [*FABRIC, "--job", str(EXAMPLES / "gpt3-a.json"), "--job", str(EXAMPLES / "llama-b.json")]


def test_every_cable_and_spine_is_in_the_document_with_the_speed_of_each_job(run: Any) -> None:
    document = json.loads(run("survive", *JOBS, "--format", "json").out)
    assert document["jobs"] == ["gpt3-a", "llama-b"]
    assert document["before"]["speeds"] == [1.0, 1.0]
    assert len(document["failures"]) == 16 + 4
    assert {kind for row in document["failures"] for kind in row["kinds"]} == {"cable", "spine"}
    assert all(row["min_speed"] == min(row["speeds"]) for row in document["failures"])
    assert all(row["unroutable"] == 0 for row in document["failures"])


def test_the_table_names_the_worst_failure_of_each_job_and_how_many_they_bear(run: Any) -> None:
    code, out, _ = run("survive", *JOBS, "--above", "0.4", "--rows", "3")
    assert code == 0
    assert "20 failures" in out
    assert "gpt3-a" in out
    assert "leave every job at 0.4 or above" in out


def test_each_pair_of_failures_has_its_whole_name_on_80_columns(run: Any) -> None:
    rows = [line for line in run("survive", *JOBS, "--pairs", "--rows", "174").out.splitlines() if line[:1] == " "]
    pairs = [line.split("  ")[0].strip() for line in rows if " + " in line.split("  ")[0]]
    assert len(set(pairs)) == len(pairs) == 174


def test_pairs_of_spines_are_every_two_of_them(run: Any) -> None:
    document = json.loads(run("survive", *JOBS, "--kind", "spine", "--pairs", "--format", "json").out)
    assert len(document["failures"]) == 6
    assert all(len(row["names"]) == 2 for row in document["failures"])


@pytest.mark.parametrize("together", [1, 2])
def test_on_routers_a_job_in_any_order_keeps_what_the_cables_left_between_its_leaves_carry(
    run: Any, tmp_path: Path, together: int
) -> None:
    """Each leaf fills its four uplinks to the next leaf, whose cables to the same spines the packets need, too."""
    flows = [{"src": f"h{host}", "dst": f"h{(host + 3) % 16 + 1}", "bytes": 10**9} for host in range(1, 17)]
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"name": "j", "order": "any", "flows": flows}))
    fabric = str(EXAMPLES / "routers-4x4x4.yaml")
    more = ["--pairs"] if together == 2 else []
    arguments = ["--fabric", fabric, "--job", str(job), "--kind", "cable", *more, "--format", "json"]
    document = json.loads(run("survive", *arguments).out)
    assert document["before"]["min_speed"] == pytest.approx(1.0)
    assert len(document["failures"]) == {1: 16, 2: 16 * 15 // 2}[together]
    stated, brute = [], []
    for row in document["failures"]:
        dead = {tuple(name.split("-")) for name in row["names"]}
        left = [
            {spine for spine in range(1, 5) if not dead & {(f"leaf{leaf}", f"spine{spine}") for leaf in (one, other)}}
            for one, other in ((1, 2), (2, 3), (3, 4), (4, 1))
        ]
        stated.append(row["min_speed"])
        brute.append(min(map(len, left)) / 4)
    # Hosts divide packets no finer than by 1/10,000.
    assert stated == pytest.approx(brute, rel=2e-3)
    assert document["failures"][0]["min_speed"] == pytest.approx({1: 3 / 4, 2: 1 / 2}[together], rel=2e-3)


def test_too_many_pairs_are_refused_with_the_option_that_makes_them_fewer(run: Any, tmp_path: Path) -> None:
    fabric, job = tmp_path / "fabric.yaml", tmp_path / "job.json"
    fabric.write_text("clos: {spines: 16, leaves: 32, hosts_per_leaf: 1, host_gbps: 100, uplink_gbps: 100}")
    job.write_text(json.dumps({"name": "j", "flows": [{"src": "h1", "dst": "h2", "bytes": 1}]}))
    code, out, err = run("survive", "--fabric", str(fabric), "--job", str(job), "--pairs")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--pairs: 139,128 pairs of failures are too many" in err
    assert "--kind" in err


@pytest.mark.parametrize("more", [["--policy", "nope"], ["--above", "2"], ["--kind", "leaf"], ["--workers", "0"]])
def test_bad_options_are_refused(run: Any, more: list[str]) -> None:
    code, out, err = run("survive", *JOBS, *more)
    assert (code, out) == (2, "")
    assert err
