"""What commands print on a screen of 80 columns and 24 lines, with data of the size of a real cluster."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from controller.cli.shared.tables import table_of
from controller.rest import schemas
from tests.unit.cli.fake_controller import Controller
from tests.unit.cli.live.fabric_document import FABRIC
from tests.unit.cli.live.plan_document import plan
from tests.unit.cli.live.top_answers import looks
from tests.unit.cli.running import Run

EXAMPLES = Path(__file__).parents[3] / "examples"
CABLE = {"gbps": 400.0, "up": True, "drained": False, "load_gbps": 399.98, "rate_gbps": 377.12, "utilisation": 0.94}
LINKS = [{"id": f"leaf{n}->spine{n % 32}:3", **CABLE, "dropped": 10**9, "errors": 10**8 + n} for n in range(100, 164)]
JOBS = [
    {
        "name": f"llama-3-70b-pretrain-{n}",
        "weight": 1.5,
        "collectives": 1024,
        "flows": 16384,
        "speed": 0.123,
        "bytes": 123_456_789_012,
        "min_speed": 0.999,
        "epoch": 12345,
        "active": False,
        "unroutable": [],
        "times": {
            "compute_seconds": 0.1,
            "alone_seconds": 1.234,
            "iteration_seconds": 12.34,
            "slowdown": 1.25,
            "duty": 0.6,
        },
    }
    for n in range(20)
]
TIMES = {"slowdown": 1.25, "bound": 1.125, "gap": 1 / 9}
PLANS = [
    plan(
        n,
        cause=f"job llama-3-70b-pretrain-{n} replaced",
        by="slurm-of-cluster-a.example",
        flows=16384,
        moved=16000,
        min_speed=0.123,
        gap=0.012,
        enforcement="segment_routing",
        policy="path_pinning",
    )
    for n in range(12345, 12300, -1)
]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")


def fits(out: str, lines: int = 10_000) -> None:
    rows = out.splitlines()
    assert [row for row in rows if cell_len(row.rstrip()) > 80] == []
    assert len(rows) < lines, out


def flow(n: int) -> dict[str, Any]:
    links = [f"h{n}->leaf{n}", f"leaf{n}->spine{n}:2", f"spine{n}->leaf{n + 1}", f"leaf{n + 1}->h{n + 1}"]
    return {
        "id": f"llama-3-70b-pretrain-{n}/dp0-all_reduce/{n}",
        "piece": 0,
        "job": f"llama-{n}",
        "collective": "dp0",
        "src": f"h{n}",
        "dst": f"h{n + 1}",
        "src_rank": n,
        "dst_rank": n + 1,
        "udp_src": 50000,
        "share": 1.0,
        "planned": links,
        "real": links[:1] + links[1:],
        "how": "counters",
        "sure": 1.0,
        "differs": n % 2 == 0,
        "why": "the rule of this flow was changed by hand and leads elsewhere",
        "bytes": 10**12,
    }


FLOWS = [flow(n) for n in range(1000, 1064)]
EVEN = {"fim": 0.123, "max_over_mean": 12.345, "cv": 0.987}
DRAWN = {"mean": 0.5, "min": 0.25, "max": 0.75}
TRACE: dict[str, Any] = {
    "at": "2026-01-02T03:12:00+00:00",
    "epoch": 12345,
    "mode": "planned",
    "enforcement": "segment_routing",
    "window": 2.0,
    "silent": ["leaf1"],
    "flows": FLOWS,
    "layers": [{"layer": name, "links": 2048, "flows": EVEN, "bytes": EVEN} for name in ("uplinks", "downlinks")],
    "links": [{"id": row["id"], "layer": "uplinks", "gbps": 400.0} for row in LINKS],
    "hot": [
        {"link": row["id"], "gbps": 400.0, "utilisation": 0.99, "flows": [f["id"] for f in FLOWS[:7]], "bytes": 10**12}
        for row in LINKS[:9]
    ],
}
COMPARED = {
    "policy": "ecmp",
    "seeds": 20,
    "plan_min_speed": 1.0,
    "min_speed": DRAWN,
    "hot": TRACE["hot"],
    "layers": [{"flows": {"fim": DRAWN}, "bytes": {"fim": DRAWN}}] * 2,
}


@pytest.mark.parametrize("command", ["top", "status"])
def test_top_and_status_are_one_screen(controller: Controller, run: Run, command: str) -> None:
    answers = looks(reasons=[f"spine{n} is not connected" for n in range(9)])
    answers[1] = (200, {"links": LINKS, "measured": None, "period": 2.0})
    answers[2] = (200, {"jobs": JOBS, "times": TIMES})
    controller.lay_out(*answers)
    code, out, _ = run(command, "--url", controller.url)
    assert code == 0
    fits(out, 24)
    assert re.search(r"--wide also shows: \d+ faster jobs", out)
    controller.lay_out(*answers)
    wide = run(command, "--wide", "--url", controller.url)[1]
    assert all(str(row["name"]) in wide for row in JOBS)


def test_history_is_one_screen_with_what_matters_of_each_plan(
    controller: Controller,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def page(path: str) -> tuple[int, Any]:
        return 200, {"plans": PLANS[: int(path)], "next_before": 12000}

    controller.lay_out(page("15"), page("20"), page("20"))
    code, out, _ = run("history", "--url", controller.url)
    fits(out, 24)
    assert code == 0
    assert controller.asked[0][1] == "/v1/plans?limit=15"
    assert out.count("…") >= 15, "a cause that was cut has a mark"
    assert "--wide also shows: " in out
    wide = run("history", "--url", controller.url, "--wide")[1]
    assert "slurm-of-cluster-a.example" in wide
    assert PLANS[0]["cause"] in wide
    assert "…" not in wide
    run("history", "--url", controller.url, "--format", "json")
    assert [path for _, path, _ in controller.asked[1:]] == ["/v1/plans?limit=20"] * 2


@pytest.mark.parametrize("compare", [None, COMPARED])
def test_a_trace_fits_the_width_and_has_a_row_a_flow(
    controller: Controller,
    run: Run,
    compare: Any,
) -> None:
    controller.lay_out(*[(200, TRACE | {"compare": compare})] * 3)
    code, out, _ = run("trace", "--url", controller.url)
    fits(out)
    assert code == 1
    rows = [line for line in out.splitlines() if line.startswith(" llama")]
    assert len(rows) == 5
    assert all("leaf1" in row for row in rows)
    wide = run("trace", "--url", controller.url, "--wide")[1]
    assert all(str(one["id"]) in wide for one in FLOWS)
    assert "…" not in wide
    assert json.loads(run("trace", "--url", controller.url, "--format", "json")[1])["flows"] == FLOWS


LIVE_COMMANDS: list[tuple[list[str], Any]] = [
    (["links"], {"links": LINKS}),
    (["jobs"], {"jobs": JOBS}),
    (["jobs", "show", "a"], JOBS[0] | {"collectives": [], "flows": []}),
    (["fabric"], FABRIC),
    (
        ["routes", "h1"],
        {
            "mode": "planned",
            "enforcement": "segment_routing",
            "epoch": 12345,
            "flows": [
                {
                    "id": one["id"],
                    "flow": one["id"],
                    "qp": 12,
                    "qps": 16,
                    "dst": one["dst"],
                    "bytes": 10**12,
                    "pieces": [{"path": "spine1000:2", "share": 1.0, "rate_gbps": 398.12, "udp_src": 65000}],
                }
                for one in FLOWS
            ],
        },
    ),
    (
        ["schedule"],
        {
            "epoch": 12345,
            "schedule": {
                "slowdown": 1.0,
                "bound": 1.0,
                "jobs": [
                    {
                        "job": row["name"],
                        "shift_seconds": 1.0,
                        "period_seconds": 10.0,
                        "hold": True,
                        "iteration_seconds": 12.34,
                        "compatibility": 1.0,
                    }
                    for row in JOBS
                ],
            },
        },
    ),
    (["mode"], {"mode": "frozen", "enforcement": "segment_routing", "since": None, "by": "x" * 63, "epoch": 12345}),
    (["history", "show", "12345"], PLANS[0] | {"paths": [{"path": "spine1000:2"}]}),
]


@pytest.mark.parametrize(("command", "answer"), LIVE_COMMANDS, ids=lambda value: "-".join(value)[:20])
def test_tables_of_a_running_controller_fit_the_width(
    controller: Controller,
    run: Run,
    command: list[str],
    answer: Any,
) -> None:
    controller.lay_out(*[(200, answer)] * 4)
    code, out, err = run(*command, "--url", controller.url)
    assert (code, err) == (0, "")
    fits(out)
    assert run(*command, "--wide", "--url", controller.url)[0] == 0
    encoded = run(*command, "--url", controller.url, "--output", "yaml")[1]
    assert yaml.safe_load(encoded) == json.loads(run(*command, "--url", controller.url, "--output", "json")[1])


def test_a_preview_fits_the_width(controller: Controller, run: Run) -> None:
    value = {
        "policy": "path_pinning",
        "seed": 2**40,
        "mode": "planned",
        "enforcement": "segment_routing",
        "slowest": None,
        "expected": {"mean": 0.1, "min": 0.05, "max": 0.15},
        "most_rules": 12345,
        "min_speed": 0.1,
        "min_level": 0.1,
        "flows": 9,
        "bound_split": 0.1,
        "bound_single": 0.1,
        "gap": 12.345,
        "unroutable": 0,
    }
    document = {
        "epoch": 12345,
        "before": value,
        "after": value,
        "moved_count": 64,
        "still_used": ["leaf1-spine1"] * 20,
        "moved": [one["id"] for one in FLOWS],
        "jobs": [{"job": "a", "before": 1.0, "after": 0.5}],
        "drains": [],
    }
    controller.lay_out((200, document))
    code, out, _ = run("preview", "--drain", "spine1", "--url", controller.url)
    assert code == 0
    fits(out)


FILES = [
    *("--fabric", str(EXAMPLES / "clos-4x4x4.yaml"), "--job", str(EXAMPLES / "gpt3-a.json")),
    *("--job", str(EXAMPLES / "llama-b.json")),
]


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (["plan", *FILES], 30),
        (["compare", *FILES, "--policies", "all"], 24),
        (["trace", *FILES, "--policy", "ecmp"], 30),
        (["survive", *FILES], 30),
        (["job", "describe", str(EXAMPLES / "gpt3-175b-tp8-pp8-dp4.yaml")], 40),
    ],
)
def test_tables_made_from_files_fit_the_screen(run: Run, command: list[str], lines: int) -> None:
    code, out, err = run(*command)
    assert (code, err) == (0, "")
    fits(out, lines)


TEXT = st.text("abcß日本→[]- ", max_size=60)


@given(
    st.lists(st.tuples(TEXT, TEXT, st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=5),
    st.integers(60, 200),
)
def test_a_table_is_a_line_a_row_never_too_wide_and_cut_text_has_a_mark(
    rows: list[tuple[str, str, int, int]], width: int
) -> None:
    columns = ("name", "cause", "flows>", "moved>")
    cells = [(name, cause, str(flows), str(moved)) for name, cause, flows, moved in rows]
    table, without = table_of(columns, cells, width=width, give_up=("moved>",), shorten=("cause",))
    console = Console(width=10_000, color_system=None)
    with console.capture() as captured:
        console.print(table)
    lines = captured.get().split("\n")
    assert all(cell_len(line.rstrip(" ")) <= width for line in lines)
    assert len(lines) == len(rows) + 5
    for line, row in zip(lines[3:], cells, strict=False):
        assert row[2] in line, "numbers are never cut"
        assert (row[3] in line) or "moved" in without
        assert "…" in line or row[0].strip() in line


@given(st.lists(st.tuples(TEXT, TEXT, st.integers(0, 10**9)), max_size=5), st.integers(20, 100))
def test_a_table_looks_like_one_that_rich_lays_out(rows: list[tuple[str, str, int]], width: int) -> None:
    cells = [(name, cause, str(flows)) for name, cause, flows in rows]
    table, _ = table_of(("name", "cause", "flows>"), cells, width=width)
    rich = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, columns, right in zip(table.header, table.widths, table.right, strict=True):
        justify: Literal["right", "left"] = "right" if right else "left"
        rich.add_column(Text(name), justify=justify, overflow="ellipsis", no_wrap=True, width=columns)
    for row in table.rows:
        rich.add_row(*map(Text, row))
    console = Console(width=10_000, color_system=None)
    printed = []
    for each in (table, rich):
        with console.capture() as captured:
            console.print(each)
        printed.append(captured.get())
    assert printed[0] == printed[1]


def test_documents_are_those_of_the_interface() -> None:
    schemas.FabricDocument.model_validate(FABRIC)
