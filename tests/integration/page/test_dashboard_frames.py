"""Frames in the dashboard: planes of pods, dual-ToR leaves below common switches, and 1,024 NICs in two planes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.documented import ROOT
from tests.rig.http.client import Server
from tests.rig.page.axe import violations
from tests.rig.page.browser import Browser
from tests.rig.page.dashboard import choose, put
from tests.rig.page.matrix import CELL, PLANE, ROWS, ring
from tests.rig.real_controller import controller

Box = tuple[float, float, float, float]

BOXES = """
return ['.plane', '.pod', '.node'].map((path) => [...document.querySelectorAll(path)].map((node) => {
  const r = node.querySelector('rect').getBoundingClientRect();
  return [node.dataset.id, [r.left, r.top, r.right, r.bottom]];
}));
"""

CLICK = "document.querySelector(arguments[0]).dispatchEvent(new MouseEvent('click', {bubbles: true}))"


def boxes(page: Browser) -> tuple[list[tuple[str, Box]], list[tuple[str, Box]], list[tuple[str, Box]]]:
    """The frames of planes and of pods, and the boxes of switches, each with its name."""
    planes, pods, nodes = page.run(BOXES)
    return planes, pods, nodes


def inside(inner: Box, outer: Box) -> bool:
    return outer[0] < inner[0] and outer[1] < inner[1] and inner[2] < outer[2] and inner[3] < outer[3]


def apart(a: Box, b: Box) -> bool:
    return a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def members(frame: Box, nodes: list[tuple[str, Box]]) -> set[str]:
    """The switches in a frame; every other one is wholly outside."""
    found = {name for name, box in nodes if inside(box, frame)}
    assert all(apart(box, frame) for name, box in nodes if name not in found)
    return found


def disjoint(frames: list[tuple[str, Box]]) -> bool:
    return all(apart(a, b) for k, (_, a) in enumerate(frames) for _, b in frames[:k])


def in_plane(server: Server, plane: int) -> set[str]:
    return {
        row["name"] for row in json.loads(server.ask("GET", "/v1/fabric").body)["switches"] if row["plane"] == plane
    }


def test_planes_of_pods_have_a_frame_each_with_one_for_each_pod_in_it(tmp_path: Path, page: Browser) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text("three_tier: {pods: 2, leaves: 2, aggs: 2, cores_per_agg: 2, hosts_per_leaf: 2, planes: 2}\n")
    with controller(tmp_path, "--fabric", str(file)) as (server, _):
        assert put(server, "/v1/jobs/ring", ring("h1", "h5", "h3", "h7")) == 201
        page.open(server.port)
        page.until(".cable", "a small fabric opens as the drawing")
        planes, pods, nodes = boxes(page)
        assert ([name for name, _ in planes], [name for name, _ in pods]) == (
            ["plane1", "plane2"],
            ["pod1", "pod2", "pod3", "pod4"],
        )
        assert disjoint(planes)
        assert disjoint(pods)
        assert disjoint(nodes)
        for number, (_, frame) in enumerate(planes, start=1):
            assert members(frame, nodes) == in_plane(server, number)
        for number, (_, frame) in enumerate(pods, start=1):
            own = {f"{role}{2 * number - k}" for role in ("leaf", "agg") for k in (0, 1)}
            assert members(frame, nodes) == own
            assert inside(frame, planes[(number - 1) // 2][1])
        page.picture("frames-planes-of-pods")
        assert violations(page) == []
        # Names of planes and pods select them.
        for name, cables in (("pod3", "8 of 8 up"), ("plane2", "16 of 16 up")):
            page.run(CLICK, f"[data-id={name}] .name")
            page.until(lambda name=name: page.text("#detail-title") == name, f"{name} is selected")  # type: ignore[misc]
            assert cables in page.text("#detail")
            assert page.count(".cable[data-near]") == int(cables.split()[0])
        page.run(PLANE, "2")
        page.until(lambda: page.count(".node") == 12, "only one plane is shown")
        planes, pods, nodes = boxes(page)
        assert (planes, [name for name, _ in pods]) == ([], ["pod3", "pod4"])
        assert {name for name, _ in nodes} == in_plane(server, 2)
        page.picture("frames-one-plane-of-pods")
        page.run(PLANE, "")
        assert put(server, "/v1/fabric/links/pod3", {"drained": True}) == 200
        page.until(".pod[data-id=pod3][data-state=drained]", "the pod says that it is drained")
        assert put(server, "/v1/fabric/links/pod3", {"drained": False}) == 200
        assert put(server, "/v1/fabric/links/plane1", {"drained": True}) == 200
        page.until(".plane[data-id=plane1][data-state=drained]", "the plane says that it is drained")
        page.until(lambda: page.count(".cable[data-state=drained]") == 16, "the cables of the drained plane")
        page.picture("frames-drained-plane-of-pods")
        choose(page, "shape", "matrix")
        page.until("[role=grid]", "the matrix")
        # The selected plane is open: a row for each of its pods.
        assert page.run(ROWS) == ["plane1", "plane2", "pod3", "pod4"]
        assert violations(page) == []
        assert page.complaints() == []


def test_dual_tor_leaves_have_a_frame_a_plane_below_the_spines_that_they_share(tmp_path: Path, page: Browser) -> None:
    with controller(tmp_path, "--fabric", str(ROOT / "examples/dual-tor.yaml")) as (server, _):
        assert put(server, "/v1/jobs/ring", ring("h1", "h5", "h2", "h6")) == 201
        page.open(server.port)
        page.until(".cable", "a small fabric opens as the drawing")
        planes, pods, nodes = boxes(page)
        assert disjoint(planes)
        assert pods == []
        assert [(name, members(frame, nodes)) for name, frame in planes] == [
            ("plane1", {"leaf1", "leaf3"}),
            ("plane2", {"leaf2", "leaf4"}),
        ]
        page.picture("frames-dual-tor")
        assert violations(page) == []
        page.run(CLICK, "[data-id=plane2] .name")
        page.until(lambda: page.text("#detail-title") == "plane2", "the plane is selected")
        assert "4 of 4 up" in page.text("#detail")
        # One plane alone, with the spines that it shares.
        page.run("document.querySelector('#detail [data-act=only-plane]').click()")
        page.until(lambda: page.count(".node") == 4, "only one plane is shown")
        assert {name for name, _ in boxes(page)[2]} == {"leaf2", "leaf4", "spine1", "spine2"}
        assert (page.count(".cable"), page.count(".plane")) == (4, 0)
        page.run(PLANE, "")
        page.until(lambda: page.count(".node") == 6, "all planes are shown")
        assert put(server, "/v1/fabric/links/plane2", {"drained": True}) == 200
        page.until(".plane[data-id=plane2][data-state=drained]", "the plane says that it is drained")
        drained = "return [...document.querySelectorAll('.cable[data-state=drained]')].map((c) => c.dataset.id).sort()"
        page.until(lambda: page.count(".cable[data-state=drained]") == 4, "the cables of the drained plane")
        assert page.run(drained) == [f"leaf{leaf}-spine{spine}" for leaf in (2, 4) for spine in (1, 2)]
        page.picture("frames-dual-tor-drained")
        assert page.complaints() == []


@pytest.mark.parametrize("planes", [1, 2])
def test_dual_tor_pods_have_a_frame_with_one_for_each_plane_of_their_leaves(
    tmp_path: Path, page: Browser, planes: int
) -> None:
    file = tmp_path / "fabric.yaml"
    shape = f"pods: 2, leaves: 4, aggs: 2, cores_per_agg: 2, hosts_per_leaf: 4, planes: {planes}, dual_tor: true"
    file.write_text(f"three_tier: {{{shape}}}\n")
    with controller(tmp_path, "--fabric", str(file)) as (server, _):
        page.open(server.port)
        page.until(".cable", "a small fabric opens as the drawing")
        frames, pods, nodes = boxes(page)
        assert disjoint(frames)
        assert disjoint(pods)
        assert [name for name, _ in pods] == [f"pod{n + 1}" for n in range(2 * planes)]
        assert len(frames) == 2 * len(pods)
        for k, (name, frame) in enumerate(frames):
            first = 4 * (k // 2) + k % 2 + 1
            assert members(frame, nodes) == {f"leaf{first}", f"leaf{first + 2}"}
            assert name == f"plane{k // 4 * 2 + k % 2 + 1}"
            assert inside(frame, pods[k // 2][1])
        page.picture(f"frames-dual-tor-pods-{planes}")
        page.run(CLICK, "[data-id=plane2] .name")
        page.until(lambda: page.count(".plane[data-selected]") == 2, "both parts of the plane are selected")
        choose(page, "shape", "matrix")
        page.until("[role=grid]", "the matrix")
        heads = page.run("return [...document.querySelectorAll('.matrix thead th')].map((head) => head.textContent)")
        assert heads[:3] == ["pod \\ agg plane, core", "agg plane1", "agg plane2"]
        assert violations(page) == []
        assert page.complaints() == []


def test_two_planes_of_1024_nics_in_pods_are_rows_that_open_down_to_a_switch(tmp_path: Path, page: Browser) -> None:
    file = tmp_path / "fabric.yaml"
    shape = "pods: 16, leaves: 8, aggs: 8, cores_per_agg: 8, hosts_per_leaf: 8, planes: 2"
    file.write_text(f"three_tier: {{{shape}}}\nfailed: [agg137-core65, leaf131-agg130]\n")
    with controller(tmp_path, "--fabric", str(file)) as (server, _):
        assert put(server, "/v1/jobs/ring", ring(*(f"h{n}" for n in range(1, 1025, 16)))) == 201
        page.open(server.port)
        page.until("[role=grid]", "a large fabric opens as the matrix")
        assert page.run(ROWS) == ["plane1", "plane2"]
        heads = page.run("return [...document.querySelectorAll('.matrix thead th')].map((head) => head.textContent)")
        assert heads[:3] == ["plane, pod \\ agg plane, core", "agg plane 1", "agg plane 2"]
        assert (heads[9], heads[-1], len(heads)) == ("core 1 to core 4", "core 61 to core 64", 1 + 8 + 16)
        assert page.count(".cell[data-state=failed]") == 2
        page.picture("frames-1024-folded")
        page.run(f"{CELL.format(row=1, column=2)}.click()")
        page.until(lambda: page.text("#detail-title") == "leaf131-agg130", "the failed cable of the pod")
        page.until(lambda: len(page.run(ROWS)) == 2 + 16 + 16, "the plane and the pod are open")
        assert page.run(ROWS)[:4] == ["plane1", "plane2", "pod17", "leaf129"]
        opened = "return [...document.querySelectorAll('[aria-expanded=true]')].map((head) => head.textContent)"
        assert page.run(opened) == ["plane2", "pod17"]
        assert violations(page) == []
        page.picture("frames-1024-open")
        page.size(390, 844)
        assert page.run("return document.documentElement.scrollWidth") <= 390
        page.size(1440, 1000)
        # One plane alone is a matrix of its pods.
        page.run(PLANE, "1")
        page.until(lambda: page.run(ROWS) == [f"pod{n}" for n in range(1, 17)], "only one plane is shown")
        page.picture("frames-1024-one-plane")
        assert page.complaints() == []
