"""Traces on real switches agree with port counters and captured packets."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.southbound.enforcement.registry import rule_enforcements
from controller.telemetry.fabric_snapshot import FRESH, WINDOW
from emulation.lab import Lab
from tests.rig.bench import Bench
from tests.rig.checks.jobs import active, started, uplink_packets
from tests.rig.checks.traces import fresh, send, traced
from tests.rig.controller import Controller
from tests.rig.hosts.roce_hosts import CAPTURE
from tests.rig.programs import fairspine
from tests.rig.waiting import READY_SECONDS, eventually

pytestmark = pytest.mark.switches

FABRIC = clos(3, 2, 2)
# From h1 go four flows over three paths: one of them is split (``ethereal``).
SPLIT = {
    "flows": [
        *({"src": "h1", "dst": dst, "bytes": 10**6, "collective": str(n)} for n, dst in enumerate(["h3", "h4"] * 2)),
        {"src": "h4", "dst": "h2", "bytes": 10**6},
    ]
}
RING = {
    "hosts": ["h1", "h3", "h2", "h4"],
    "collectives": [{"name": "dp", "op": "all_reduce", "algorithm": "ring", "ranks": [0, 1, 2, 3], "bytes": 10**6}],
}
PACKETS = 100


def check_with_counters(lab: Lab, flows: Sequence[Mapping[str, Any]]) -> None:
    """Packets of these flows are counted on the uplinks that the trace tells, and on no other."""
    expected = Counter(flow["real"][1] for flow in flows)
    before = uplink_packets(lab, FABRIC)
    send(lab, flows, [PACKETS] * len(flows))

    def more() -> Counter[str]:
        # Discovery and ARP are the only others, fewer than any piece has.
        return Counter({link: n // PACKETS for link, n in (uplink_packets(lab, FABRIC) - before).items()})

    eventually(lambda: +more() == expected, "traced uplinks count the packets", shown=lambda: (more(), expected))


def command(controller: Controller, *arguments: str) -> tuple[int, str, str]:
    url = f"http://127.0.0.1:{controller.http_port}"
    done = fairspine("trace", "--url", url, *arguments)
    return done.returncode, done.stdout, done.stderr


@contextmanager
def capturing(lab: Lab, folder: Path) -> Iterator[None]:
    """Frames at the leaf's port of each cable, as pcap files named after the cables."""
    folder.mkdir()
    children = {
        name: subprocess.Popen(
            [sys.executable, "-S", CAPTURE, lab.wiring.wire(name).a.interface],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for name in FABRIC.cable_names
    }
    for child in children.values():
        assert child.stdout is not None
        assert child.stdout.read(1) == b"!"
    yield
    for name, child in children.items():
        frames, _ = child.communicate(timeout=READY_SECONDS)
        (folder / f"{name}.pcap").write_bytes(
            struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 64 * 1024, 1)
            + b"".join(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame for frame in framed(frames))
        )


def framed(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("!I", data, at)
        yield data[at + 4 : at + 4 + length]
        at += 4 + length


def port_of(cable: str) -> int:
    port = FABRIC.cables[FABRIC.cable_names.index(cable)].lower_port
    assert port is not None
    return port


def test_a_trace_shows_the_real_paths_in_every_enforcement_after_manual_changes_and_failures(
    bench: Bench, tmp_path: Path
) -> None:
    # What a hand has done is to stay.
    lab, controller = started(bench, FABRIC, tmp_path, "--policy", "ethereal", "--readback-seconds", "0")
    assert controller.put("/v1/jobs/one", SPLIT).status == 201
    for enforcement in rule_enforcements():
        assert controller.put("/v1/mode", {"enforcement": enforcement}).status == 200
        active(controller)
        told = fresh(
            controller,
            lambda body: all(flow["real"] == flow["planned"] for flow in body["flows"]),
            "every flow is on its planned path",
        )
        assert told["enforcement"] == enforcement
        assert {(flow["how"], flow["sure"], flow["differs"], flow["why"]) for flow in told["flows"]} == {
            ("rules", 1.0, False, "")
        }
        assert len(told["flows"]) > len(SPLIT["flows"])
        assert told["silent"] == []
        check_with_counters(lab, told["flows"])
    assert controller.put("/v1/mode", {"enforcement": "per_flow"}).status == 200
    active(controller)

    def whole(body: dict[str, Any]) -> bool:
        return body["enforcement"] == "per_flow" and not any(flow["differs"] for flow in body["flows"])

    told = fresh(controller, whole, "rules per flow are back")
    assert {flow["how"] for flow in told["flows"]} == {"rules"}
    # Somebody sends one flow over another spine.
    victim = next(flow for flow in told["flows"] if flow["src"] == "h4")
    ip = {host.name: host.ip for host in lab.fabric.hosts}
    other = next(f"leaf2-{spine.name}" for spine in FABRIC.spines if spine.name not in victim["planned"][1])
    fields = f"udp,nw_src={ip['h4']},nw_dst={ip['h2']},tp_src={victim['udp_src']},tp_dst=4791"
    lab.ofctl("mod-flows", "leaf2", "--strict", f"priority=2016,{fields},actions=output:{port_of(other)}")
    key = ("id", "piece")

    def astray(body: dict[str, Any]) -> list[Any]:
        return [[flow[name] for name in key] for flow in body["flows"] if flow["differs"]]

    told = fresh(controller, lambda body: astray(body) == [[victim[name] for name in key]], "one flow is astray")
    (moved,) = (flow for flow in told["flows"] if flow["differs"])
    assert (moved["real"][1], moved["how"], moved["sure"]) == (other.replace("-", "->"), "rules", 1.0)
    assert moved["why"] == f"leaf2's rule for it leads elsewhere: it takes {other}"
    check_with_counters(lab, [moved])
    code, out, err = command(controller, "--differs", "--format", "json", "--save", str(tmp_path / "saved.json"))
    assert (code, [flow["id"] for flow in json.loads(out)["flows"]]) == (1, [moved["id"]])
    assert err.count("\n") == 1
    assert moved["why"] in err
    code, again, _ = command(controller, "--differs", "--format", "json", "--from", str(tmp_path / "saved.json"))
    assert (code, json.loads(again)) == (1, json.loads(out))
    # A stranger's rule above ours, then none at all.
    lab.ofctl("add-flow", "leaf2", f"priority=4000,{fields},actions=drop")
    told = fresh(controller, lambda body: any("drops it" in flow["why"] for flow in body["flows"]), "it is dropped")
    (lost,) = (flow for flow in told["flows"] if flow["differs"])
    assert (lost["real"], lost["how"], lost["sure"]) == (None, "rules", 1.0)
    lab.ofctl("del-flows", "leaf2", fields)
    told = fresh(controller, lambda body: any("has no rule" in flow["why"] for flow in body["flows"]), "it has no rule")
    (hashed,) = (flow for flow in told["flows"] if flow["why"])
    assert hashed["differs"]
    assert hashed["why"].startswith("leaf2 has no rule for it: hashed over leaf2-spine1, leaf2-spine2, leaf2-spine3")
    # Frozen, nobody plans around a dead uplink: the leaf itself does.
    assert controller.put("/v1/mode", {"mode": "frozen"}).status == 200
    dead = next(flow for flow in told["flows"] if flow["src"] == "h1")["planned"][1].replace("->", "-")
    lab.set_port("leaf1", port_of(dead), up=False)
    told = fresh(
        controller,
        lambda body: any(f"its uplink {dead} is down: fail-over, hashed over" in flow["why"] for flow in body["flows"]),
        "fail-over shows",
    )
    moved_over = [flow for flow in told["flows"] if "fail-over" in flow["why"]]
    assert {flow["planned"][1] for flow in moved_over} == {dead.replace("-", "->")}
    assert {(flow["differs"], flow["src"]) for flow in moved_over} == {(True, "h1")}


def test_under_ecmp_uplinks_inferred_for_sure_are_those_on_which_packets_are_captured(
    bench: Bench, tmp_path: Path
) -> None:
    lab, controller = started(bench, FABRIC, tmp_path)
    assert controller.put("/v1/jobs/ring", RING).status == 201
    assert controller.put("/v1/mode", {"mode": "ecmp"}).status == 200
    active(controller)
    first = fresh(controller, lambda body: all("mode is ecmp" in flow["why"] for flow in body["flows"]), "it is ecmp")
    assert {(flow["how"], flow["real"], flow["differs"]) for flow in first["flows"]} == {("none", None, False)}
    packets = [300, 700, 500, 900]
    with capturing(lab, tmp_path / "captures"):
        time.sleep(FRESH + WINDOW)
        traced(controller)
        send(lab, first["flows"], packets)
        told = fresh(
            controller,
            lambda body: all(flow["how"] == "counters" for flow in body["flows"]),
            "counters tell where flows are",
        )
    (tmp_path / "trace.json").write_text(json.dumps(told))
    code, out, err = command(
        controller,
        "--from",
        str(tmp_path / "trace.json"),
        "--fabric",
        str(tmp_path / "fabric.yaml"),
        "--capture",
        str(tmp_path / "captures"),
        "--format",
        "json",
    )
    seen = json.loads(out)
    assert (code, err != "") == (int(any(flow["differs"] for flow in seen["flows"])), code == 1)
    assert {(flow["how"], flow["sure"]) for flow in seen["flows"]} == {("capture", 1.0)}
    sure = [flow for flow in told["flows"] if flow["sure"] == 1.0]
    # Each host sends one flow, and no two as much: nothing is left to guess.
    assert len(sure) == len(packets)
    assert [flow["real"] for flow in sure] == [flow["real"] for flow in seen["flows"]]
    assert [layer["flows"] for layer in told["layers"]] == [layer["flows"] for layer in seen["layers"]]
    assert told["window"] > 0
    assert {flow["src_rank"] for flow in told["flows"]} == {0, 1, 2, 3}
    compared = traced(controller, "?job=ring&compare=ecmp")["compare"]
    assert compared["min_speed"]["min"] <= compared["min_speed"]["mean"] <= compared["plan_min_speed"] == 1.0
    assert controller.get("/v1/trace?job=nobody").status == 404
    assert yaml.safe_load((tmp_path / "fabric.yaml").read_text()) == fabric_document(FABRIC)
