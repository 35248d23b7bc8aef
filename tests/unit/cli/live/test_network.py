"""``fairspine status``, ``fabric``, ``links`` and ``routes``, against answers that are laid out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from controller.model.files.clos import clos
from controller.model.paths.plane_places import plane_numbers
from controller.rest import schemas
from controller.views import documents
from tests.unit.cli.fake_controller import Controller
from tests.unit.cli.live.fabric_document import FABRIC
from tests.unit.cli.live.top_answers import LINKS, looks
from tests.unit.cli.running import Run
from tests.unit.rest.fake import FakeBackend
from tests.unit.service.job_steps import step_of

TWO = clos(2, 2, 2, planes=2)


def cells(out: str, first: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines() if line.split()[:1] == [first]]


def ids(out: str) -> Iterable[str]:
    return (row["id"] for row in json.loads(out)["links"])


def test_status_is_one_screen_and_an_exit_code(controller: Controller, run: Run) -> None:
    controller.lay_out(*looks(status="ok", degraded_service=["1 job is slower"]))
    code, out, err = run("status", "--url", controller.url)
    assert (code, err) == (0, "")
    assert "~ 1 job is slower" in out
    assert len(out.splitlines()) <= 24
    controller.lay_out(*looks(status="degraded", reasons=["spine3 is away"]))
    code, out, err = run("status", "--url", controller.url, "--format", "json")
    assert (code, json.loads(out)["health"]["reasons"]) == (1, ["spine3 is away"])
    assert err == "fairspine: the health is degraded: spine3 is away\n"


def test_the_fabric_has_each_switch_with_what_is_on_it(controller: Controller, run: Run) -> None:
    schemas.FabricDocument.model_validate(FABRIC)
    controller.lay_out((200, FABRIC), (200, FABRIC))
    code, out, _ = run("fabric", "--url", controller.url)
    assert code == 0
    assert "2 switches, 2 cables, 1 host" in out
    assert cells(out, "leaf1") == [["leaf1", "leaf", "yes", "1", "of", "2", "1", "1"]]
    assert cells(out, "spine1") == [["spine1", "spine", "no", "1", "of", "2", "1", "-"]]
    assert "! spine1 is not connected" in out
    assert json.loads(run("fabric", "--url", controller.url, "--format", "json")[1]) == FABRIC


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ([], [row["id"] for row in LINKS]),
        (["spine2"], ["leaf1->spine2"]),
        (["leaf1-spine3"], ["leaf1->spine3"]),
        (["h1", "leaf1->spine1"], ["h1->leaf1", "leaf1->spine1"]),
    ],
)
def test_links_are_chosen_by_switch_cable_and_direction(
    controller: Controller,
    run: Run,
    names: list[str],
    shown: list[Any],
) -> None:
    document = {"links": LINKS, "measured": None, "period": 2.0}
    controller.lay_out((200, document), (200, document))
    assert list(ids(run("links", *names, "--url", controller.url, "--format", "json")[1])) == shown
    code, out, _ = run("links", *names, "--url", controller.url)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines() if "->" in line] == shown
    if "leaf1->spine2" in shown:
        assert cells(out, "leaf1->spine2") == [["leaf1->spine2", "100.0", "90.00", "10.00", "2.50", "3", "0", "up"]]


def test_a_name_that_no_link_has_is_an_error_and_no_empty_table(controller: Controller, run: Run) -> None:
    controller.lay_out((200, {"links": LINKS, "measured": None, "period": 2.0}), (200, FABRIC))
    code, out, err = run("links", "leaf1", "spine9", "--url", controller.url)
    assert (code, out) == (1, "")
    assert err.endswith("'spine9' is no link, and no part of the fabric with one\n")


def test_routes_are_those_of_a_host_a_row_a_piece(controller: Controller, run: Run) -> None:
    answer = dict(FakeBackend().routes("h1"))  # type: ignore[arg-type]
    answer["flows"] += [
        answer["flows"][0] | {"id": f"a/x/0.{qp}", "flow": "a/x/0", "qp": qp, "qps": 2} for qp in (0, 1)
    ]
    controller.lay_out((200, answer), (404, {"title": "not found", "detail": "there is no host h9"}), (200, FABRIC))
    code, out, _ = run("routes", "h1", "--url", controller.url)
    assert code == 0
    assert "h1: 2 flows" in out
    assert [row[:2] for row in cells(out, "a/x/0")] == [["a/x/0", "0"], ["a/x/0", "1"]]
    assert cells(out, "a/dp0/0") == [["a/dp0/0", "-", "h2", "-", "100%", "49152", "100.00", "8", "B"]]
    assert run("routes", "h9", "--url", controller.url)[0] == 1
    assert [path for _, path, _ in controller.asked] == ["/v1/routes?host=h1", "/v1/routes?host=h9", "/v1/fabric"]


def test_the_fabric_tells_the_plane_of_each_switch_where_nics_have_several_ports(
    controller: Controller,
    run: Run,
) -> None:
    planes = {**FABRIC, "switches": [{**row, "plane": 2} for row in FABRIC["switches"]]}  # type: ignore[union-attr]
    controller.lay_out((200, planes), (200, FABRIC))
    code, out, _ = run("fabric", "--url", controller.url)
    assert code == 0
    assert cells(out, "leaf1") == [["leaf1", "leaf", "2", "yes", "1", "of", "2", "1", "1"]]
    _, out, _ = run("fabric", "--url", controller.url)
    assert "plane" not in out


def of_two_planes() -> dict[str, Any]:
    """``/v1/fabric`` of four NICs with a port in each of two planes."""
    state = step_of(TWO, [])
    return documents.fabric(state, True, [])


def two_plane_links() -> dict[str, Any]:
    ids = zip(TWO.link_ids, plane_numbers(TWO), strict=True)
    row = {"gbps": 100.0, "load_gbps": 50.0, "up": True, "drained": False}
    return {"links": [{"id": link, "plane": plane, **row} for link, plane in ids], "measured": None, "period": 2.0}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plane2", {link for link, plane in zip(TWO.link_ids, plane_numbers(TWO), strict=True) if plane == 2}),
        ("h1", {"h1.p1->leaf1", "leaf1->h1.p1", "h1.p2->leaf3", "leaf3->h1.p2"}),
        ("h1.p2", {"h1.p2->leaf3", "leaf3->h1.p2"}),
    ],
)
def test_links_of_a_plane_and_of_a_nic_are_chosen_by_their_names(
    controller: Controller,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    shown: set[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    controller.lay_out(*((200, two_plane_links()), (200, of_two_planes())) * (1 + (name == "h1")))
    code, out, _ = run("links", name, "--url", controller.url)
    assert code == 0
    found = [line.split() for line in out.splitlines() if "->" in line]
    assert {row[0] for row in found} == shown
    assert {row[1] for row in found} == ({"1", "2"} if name == "h1" else {"2"})
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80


def test_the_fabric_has_a_row_for_each_plane(controller: Controller, run: Run) -> None:
    controller.lay_out((200, of_two_planes()))
    code, out, _ = run("fabric", "--url", controller.url)
    assert code == 0
    assert "8 switches, 8 cables, 4 NICs with 8 ports" in out
    assert cells(out, "leaf3") == [["leaf3", "leaf", "2", "no", "0", "of", "2,", "2", "unknown", "0", "2"]]
    assert cells(out, "plane2") == [["plane2", "4", "0", "of", "4,", "4", "unknown", "0", "4", "of", "4"]]


def test_a_nic_has_the_routes_of_all_its_ports_with_the_stripes_of_a_flow_together(
    controller: Controller,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    one = dict(FakeBackend().routes("h1"))  # type: ignore[arg-type]
    flow = one["flows"][0] | {"qps": 2}
    ports = [
        one
        | {
            "flows": [
                flow | {"id": f"a/x/{n}.{qp}", "flow": f"a/x/{n}", "qp": qp, "dst": f"h{n + 2}.p{qp + 1}"}
                for n in (0, 1)
            ]
        }
        for qp in (0, 1)
    ]
    missing = (404, {"title": "not found", "detail": "there is no host h1"})
    controller.lay_out(*(missing, (200, of_two_planes()), (200, ports[0]), (200, ports[1])) * 2)
    code, out, _ = run("routes", "h1", "--url", controller.url)
    assert code == 0
    assert "h1 (2 ports): 2 flows" in out
    rows = [line.split()[:3] for line in out.splitlines() if line.strip().startswith("a/x/")]
    assert rows == [["a/x/0", "0", "1"], ["a/x/0", "1", "2"], ["a/x/1", "0", "1"], ["a/x/1", "1", "2"]]
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80
    told = json.loads(run("routes", "h1", "--url", controller.url, "--format", "json")[1])
    assert told == {"nic": "h1", "ports": ports}
    assert [path for _, path, _ in controller.asked][:4] == [
        "/v1/routes?host=h1",
        "/v1/fabric",
        "/v1/routes?host=h1.p1",
        "/v1/routes?host=h1.p2",
    ]


def test_cables_of_switches_that_are_not_connected_are_unknown(
    controller: Controller,
    run: Run,
) -> None:
    fabric = dict(FakeBackend().fabric())  # type: ignore[arg-type]
    fabric["links"] = [{**row, "up": True, "known": False} for row in fabric["links"]]
    controller.lay_out((200, fabric))
    out = run("fabric", "--url", controller.url)[1]
    assert f"0 of {len(fabric['links'])}, {len(fabric['links'])} unknown" in out
    controller.lay_out((200, {"links": [{**LINKS[1], "known": False}]}))
    assert "unknown" in run("links", "--url", controller.url)[1]


def test_names_of_hosts_and_their_plans_are_whole_in_a_narrow_window(
    controller: Controller, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {
        "takes_part": True,
        "heard_seconds": 0.4,
        "epoch": 123_456,
        "confirmed": True,
        "dead_paths": 0,
        "lost_probes": 12_345,
        "slowest_us": 123_456,
        "pacing": {"paced": 1000, "planned": 1024, "reason": ""},
        "ports": {"state": "unreachable", "known": 1000, "planned": 1024},
        "counters": {"ecn_marked": 10**9},
    }
    names = [f"server-{number}.rail-{number % 8}" for number in range(90, 110)]
    controller.lay_out((200, {"hosts": [{"host": name, **row} for name in names]}))
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run("hosts", "--url", controller.url)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines() if "server-" in line] == names
    assert all("123456" in line and "yes" in line for line in out.splitlines() if "server-" in line)
    assert max(map(len, out.splitlines())) <= 80
