"""Measure failures and changes on real switches: gaps, losses, times, flow-mods, as tables. Needs root.

On a 4 x 4 Clos with 4 hosts a leaf, with two flows of 1,000 packets a second that a plan places:

* gaps when the cable fails by which a flow leaves its leaf, by which it comes down to its leaf, and when its spine
  loses power; and from the port that goes down to the new plan on every switch;
* packets lost while a spine is drained and undrained, while the mode changes, while the controller is killed and
  starts again.

On 12 switches, with 10,000 rules of planned flows: from the PUT until all of them are confirmed, and a restart. Usage:
``python -m benchmarks.running.emulated [--rounds 20] [--out FOLDER] [--json FILE]``. Exits 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.running.put_to_active import active, ask, flow_rules, job
from benchmarks.running.steady import Record, SteadyFlow
from controller.model.choices.enforcement import BUILT_IN_ENFORCEMENTS
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from emulation import isolate
from emulation.controller_process import ControllerProcess, controller_command
from emulation.lab import Lab
from tests.campaigns.faults.campaign import HARMLESS

SETTLE_SECONDS = 0.7
PATIENCE_SECONDS = 60.0
CHANGES = re.compile(r": (\d+) changes for epoch \d+")

GAP_TARGET, ACTIVE_TARGET = 0.100, 0.300
RULES, RULES_ACTIVE_TARGET, READY_TARGET = 10_000, 3.0, 5.0


@dataclass
class GapRow:
    """A row of the table. ``values`` are seconds or counts; ``target`` is for the median (worst, if ``worst``)."""

    what: str
    unit: str
    values: list[float] = field(default_factory=list)
    target: float | None = None
    worst: bool = False

    @property
    def met(self) -> bool:
        """Whether the values meet the target; true without a target or without values."""
        if self.target is None or not self.values:
            return True
        return (max(self.values) if self.worst else median(self.values)) <= self.target

    def text(self) -> str:
        """Return the row as text: median, worst, number of values, target and verdict."""
        scale = 1e3 if self.unit == "ms" else 1.0
        digits = {"ms": 0, "s": 2, "": 0}[self.unit]
        shown = [f"{value * scale:.{digits}f} {self.unit}" for value in (median(self.values), max(self.values))]
        goal = "" if self.target is None else f"{self.target * scale:.{digits}f} {self.unit}"
        verdict = "" if self.target is None else ("met" if self.met else "MISSED")
        return f"{self.what:<64}{shown[0]:>10}{shown[1]:>10}{len(self.values):>6}{goal:>10}  {verdict}"


class Running:
    """A lab and a restartable controller with a store."""

    def __init__(self, lab: Lab, folder: Path, fabric: str) -> None:
        """Write the fabric file to a new folder; the controller is not started yet."""
        self.lab = lab
        folder.mkdir()
        path = folder / "fabric.yaml"
        path.write_text(fabric)
        command = controller_command("--fabric", str(path), "--store", f"sqlite:///{folder}/store.db")
        self.controller = ControllerProcess(command, lab.spawn)

    def wait_ready(self) -> None:
        """Wait until the network is as intended and the newest plan is active."""
        try:
            wait(self.controller.is_well, "the controller is ready", self.lab.ovs.try_again)
        except SystemExit as error:
            raise SystemExit(f"{error}: {ask('GET', '/healthz')[1]['reasons']}") from None

    def changes(self) -> int:
        """Return the number of flow-mods and group-mods confirmed by switches so far, from the controller's log."""
        return sum(int(found) for found in CHANGES.findall(self.lab.log_path("controller").read_text()))


@contextmanager
def plan_events(running: Running) -> Iterator[list[tuple[float, str, dict[str, Any]]]]:
    """Follow ``/v1/events`` in a ``with`` block: (monotonic time of arrival, kind, data) of each event."""
    seen: list[tuple[float, str, dict[str, Any]]] = []
    with running.controller.client() as client:
        events = client.events()

        def follow() -> None:
            for event in events:
                seen.append((time.monotonic(), event["kind"], event["data"]))

        thread = threading.Thread(target=follow)
        thread.start()
        try:
            yield seen
        finally:
            events.close()
            thread.join()


def wait(ready: Callable[[], bool], what: str, meanwhile: Callable[[], None] | None = None) -> None:
    """Wait until ``ready()``, calling ``meanwhile()``; raise ``SystemExit`` after ``PATIENCE_SECONDS``."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not ready():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {PATIENCE_SECONDS:g} s: {what}")
        if meanwhile is not None:
            meanwhile()
        time.sleep(0.01)


def first_spine(src: str, dst: str) -> tuple[str, int]:
    """Return the spine and the UDP source port that the plan gives a flow."""
    for flow in ask("GET", f"/v1/routes?host={src}")[1]["flows"]:
        if flow["dst"] == dst:
            (piece,) = flow["pieces"]
            return piece["path"], piece["udp_src"]
    raise SystemExit(f"no flow from {src} to {dst} is planned")


FLOWS = (("h1", "h5"), ("h6", "h2"))
"""The watched flows: out of leaf1, and into it."""

JOB = {
    "flows": [{"src": a, "dst": b, "bytes": 10**9, "collective": f"{a}-{b}"} for a, b in FLOWS]
    + [{"src": f"h{a}", "dst": f"h{b}", "bytes": 10**9, "collective": "others"} for a, b in ((3, 9), (10, 4), (13, 7))]
}


@dataclass
class FailureRow:
    """A row of gaps: the watched flow, and the failure of a part that it uses."""

    row: GapRow
    flow: int
    fail: Callable[[Lab, str], None]
    mend: Callable[[Lab, str], None]
    windows: list[tuple[float, float]] = field(default_factory=list)


def cable(up: bool) -> Callable[[Lab, str], None]:
    """Return a function that sets the cable from leaf1 to the flow's spine up or down."""
    return lambda lab, spine: lab.set_cable(f"leaf1-{spine}", up=up)


def power_off(lab: Lab, spine: str) -> None:
    """Set the spine's ports at its neighbours down and kill the switch."""
    for end in lab.wiring.ends(spine):
        lab.set_port(spine, end.port, up=False)
    lab.kill_switch(spine)


def failures(running: Running, rounds: int) -> list[GapRow]:
    """Measure gaps of flows and times of planning for each kind of failure."""
    kinds = [
        FailureRow(
            GapRow("gap, uplink fails, traffic leaving by it", "ms", target=GAP_TARGET), 0, cable(False), cable(True)
        ),
        FailureRow(
            GapRow("gap, uplink fails, traffic coming down it", "ms", target=GAP_TARGET), 1, cable(False), cable(True)
        ),
        FailureRow(GapRow("gap, spine loses power", "ms"), 0, power_off, Lab.start_switch),
    ]
    seen_after = GapRow("port down until the controller reports it", "ms")
    planned_after = GapRow("port down until the new plan is computed", "ms")
    active_after = GapRow("port down until the new plan is active", "ms", target=ACTIVE_TARGET)
    sent = GapRow("flow-mods and group-mods sent for it", "")
    records = [_with_flows(running, kind, rounds, (seen_after, planned_after, active_after, sent)) for kind in kinds]
    for kind, record in zip(kinds, records, strict=True):
        kind.row.values = [record.gap(*window) for window in kind.windows]
    return [*(kind.row for kind in kinds), seen_after, planned_after, active_after, sent]


def _with_flows(running: Running, kind: FailureRow, rounds: int, rows: tuple[GapRow, GapRow, GapRow, GapRow]) -> Record:
    lab = running.lab
    src, dst = FLOWS[kind.flow]
    with SteadyFlow(lab, src, dst, first_spine(src, dst)[1]) as flow, plan_events(running) as events:
        time.sleep(1)
        for _ in range(rounds):
            spine, _ = first_spine(src, dst)
            before, told = running.changes(), len(events)
            start = time.monotonic()
            kind.fail(lab, spine)
            wait(functools.partial(_is_planned, events, told), "the new plan is active")
            found = _times(events[told:])
            assert found is not None
            kind.windows.append((start - 0.1, time.monotonic()))
            time.sleep(SETTLE_SECONDS)
            wait(running.controller.plan_is_active, "the newest plan is active")
            if kind.fail is not power_off:
                for row, at in zip(rows[:3], found, strict=True):
                    row.values.append(at - start)
                rows[3].values.append(running.changes() - before)
            kind.mend(lab, spine)
            running.wait_ready()
            time.sleep(SETTLE_SECONDS)
    return flow.record


def _times(events: list[tuple[float, str, dict[str, Any]]]) -> tuple[float, float, float] | None:
    """Return when the link event came, the new plan was computed, and was active; ``None``: not yet."""
    link = next((at for at, kind, data in events if kind == "link" and not data["up"]), None)
    computed = next(((at, data["epoch"]) for at, kind, data in events if kind == "plan"), None)
    if link is None or computed is None:
        return None
    for at, kind, data in events:
        if kind == "plan" and data["state"] == "active" and data["epoch"] >= computed[1]:
            return link, computed[0], at
    return None


def _is_planned(events: list[tuple[float, str, dict[str, Any]]], told: int) -> bool:
    """Return whether the events after the first ``told`` ones contain a link's and its active plan's."""
    return _times(events[told:]) is not None


def changes(running: Running, rounds: int) -> list[GapRow]:
    """Count packets lost in changes that must lose none."""
    lab = running.lab
    rows = []

    def put(target: str, document: dict[str, Any]) -> None:
        status, answer = ask("PUT", target, json.dumps(document).encode())
        assert status == 200, answer
        wait(running.controller.plan_is_active, "the plan is active")
        time.sleep(0.1)

    def drain() -> None:
        spine, _ = first_spine(*FLOWS[0])
        put(f"/v1/fabric/links/{spine}", {"drained": True})
        put(f"/v1/fabric/links/{spine}", {"drained": False})

    def mode() -> None:
        put("/v1/mode", {"mode": "ecmp"})
        put("/v1/mode", {"mode": "planned"})

    usual, other = BUILT_IN_ENFORCEMENTS[:2]

    def enforcement() -> None:
        for name in (other, usual):
            put("/v1/mode", {"enforcement": name})

    def restart() -> None:
        running.controller.kill()
        running.controller.start(wait=False)
        running.wait_ready()

    actions = {"drain and undrain of its spine": drain, "mode ecmp and back": mode, "controller kill -9": restart}
    if "enforcement" in ask("GET", "/v1/mode")[1]:
        actions[f"enforcement {other} and back"] = enforcement
    for what, action in actions.items():
        row = GapRow(f"packets lost, {what}", "", target=0, worst=True)
        for _ in range(rounds):
            ports = [first_spine(*flow)[1] for flow in FLOWS]
            with (
                SteadyFlow(lab, *FLOWS[0], ports[0]) as out,
                SteadyFlow(lab, *FLOWS[1], ports[1]) as back,
            ):
                time.sleep(0.5)
                action()
                time.sleep(0.3)
            row.values.append(out.record.lost + back.record.lost)
        rows.append(row)
    return rows


def many_rules(folder: Path, out: Path) -> list[GapRow]:
    """Measure 10,000 rules on 12 switches: their installation, and a restart of the controller."""
    leaves, hosts = 8, 2
    fabric = clos(4, leaves, hosts)
    pushed = GapRow(f"{RULES:,} rules on 12 switches, PUT until active", "s", target=RULES_ACTIVE_TARGET)
    ready = GapRow("controller restart with them: ready", "s", target=READY_TARGET)
    sent = GapRow("controller restart with them: flow-mods sent", "", target=0, worst=True)
    with Lab(fabric, out=out) as lab:
        running = Running(lab, folder, f"clos: {{spines: 4, leaves: {leaves}, hosts_per_leaf: {hosts}}}\n")
        running.controller.start(wait=False)
        running.wait_ready()
        body = job(RULES, leaves, hosts)
        for _ in range(3):
            start = time.monotonic()
            status, answer = ask("PUT", "/v1/jobs/bench", body)
            assert status == 201, answer
            wait(active, "the job is active")
            pushed.values.append(time.monotonic() - start)
            held = flow_rules(lab)
            assert held == RULES, f"{held} rules for {RULES} flows"
            ask("DELETE", "/v1/jobs/bench")
            wait(lambda: flow_rules(lab) == 0, "they are gone")
        ask("PUT", "/v1/jobs/bench", body)
        wait(active, "the job is active")
        for _ in range(3):
            before = cookies(lab, fabric)
            running.controller.kill()
            start = time.monotonic()
            running.controller.start(wait=False)
            wait(lambda: running.controller.is_well() and active(), "the job is active again", lab.ovs.try_again)
            ready.values.append(time.monotonic() - start)
            sent.values.append(len(before ^ cookies(lab, fabric)))
    return [pushed, ready, sent]


def cookies(lab: Lab, fabric: Fabric) -> set[tuple[str, int, str, str, int]]:
    """Return every rule with the epoch in which it was written, and every group."""
    switches = [switch.name for switch in fabric.switches]
    rules = {(name, rule.table, rule.match, rule.actions, rule.cookie) for name in switches for rule in lab.flows(name)}
    groups = {
        (name, 0, group.type, str(group.buckets), group.number) for name in switches for group in lab.groups(name)
    }
    return rules | groups


def measure(rounds: int, out: Path) -> list[GapRow]:
    """Run all measurements in a network namespace and return their rows."""
    isolate.enter()
    rows: list[GapRow] = []
    # Separate stores: nothing of an earlier run may be in them. Logs are kept.
    with tempfile.TemporaryDirectory() as folder:
        with Lab(clos(4, 4, 4), out=out / "small") as lab:
            running = Running(lab, Path(folder, "small"), "clos: {spines: 4, leaves: 4, hosts_per_leaf: 4}\n")
            running.controller.start(wait=False)
            running.wait_ready()
            assert lab.ping_all() == []
            status, answer = ask("PUT", "/v1/jobs/bench", json.dumps(JOB).encode())
            assert status == 201, answer
            wait(running.controller.plan_is_active, "the plan is active")
            rows += failures(running, rounds)
            rows += changes(running, max(1, rounds // 4))
            if found := lab.problems(harmless=HARMLESS):
                raise SystemExit("in the logs:\n" + "\n".join(found))
        rows += many_rules(Path(folder, "large"), out / "large")
    return rows


def main() -> int:
    """Run the benchmark and print tables; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("out/bench-emulated"), help="logs go here")
    parser.add_argument("--json", type=Path, help="also write the values to this file")
    options = parser.parse_args()
    rows = measure(options.rounds, options.out)
    print(f"{'':<64}{'median':>10}{'worst':>10}{'of':>6}{'target':>10}")
    for row in rows:
        print(row.text())
    if options.json:
        options.json.write_text(json.dumps([vars(row) | {"met": row.met} for row in rows], indent=1))
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
