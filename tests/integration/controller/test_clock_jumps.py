"""The time of day jumps by an hour and by a day, back and forth, while a real controller runs, and between two runs."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from emulation.controller_process import ControllerProcess
from emulation.http_client import HttpClient
from tests.campaigns.cluster.clocks import ShiftedClock, ShiftedClocks
from tests.rig.http.client import PATIENCE_SECONDS
from tests.rig.page.dashboard import flows
from tests.rig.real_controller import spawned_controller
from tests.rig.waiting import eventually

HOUR, DAY = 3600, 86_400
NEAR = 1800.0
"""Seconds by which a time may differ from that of the clock, on a machine that is busy."""


@pytest.fixture
def clock() -> Iterator[ShiftedClock]:
    with ShiftedClocks() as clocks:
        yield clocks.add("controller")


@contextlib.contextmanager
def running(folder: Path, clock: ShiftedClock) -> Iterator[ControllerProcess]:
    with spawned_controller(folder, folder / "store.db", environment=clock.environment) as process:
        yield process


def push(controller: ControllerProcess, name: str) -> None:
    answer = controller.ask("PUT", f"/v1/jobs/{name}", flows(("h1", "h5"), ("h6", "h9")))
    assert answer.status == 201, answer.body


def get(controller: ControllerProcess, path: str) -> dict[str, Any]:
    answer = controller.ask("GET", path)
    assert answer.status == 200, (path, answer.body)
    body: dict[str, Any] = answer.body
    return body


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_events_history_and_changes_go_on_whatever_the_time_of_day_does(tmp_path: Path, clock: ShiftedClock) -> None:
    epochs: list[int] = []
    with running(tmp_path, clock) as controller:
        push(controller, "first")
        client = HttpClient(controller.address, timeout=PATIENCE_SECONDS)
        with client, contextlib.closing(client.events("/v1/events?after=begin")) as stream:
            pushed: list[str] = []
            for number, shift in enumerate((0, -HOUR, DAY, -DAY, 0)):
                clock.set(shift)
                push(controller, f"job{number}")
                # The stream that was open before the jump has the event, once, and no reset.
                for event in stream:
                    assert event["kind"] not in ("reset", "error"), event
                    if event["kind"] == "job":
                        pushed.append(event["data"]["job"])
                        if pushed[-1] == f"job{number}":
                            assert abs(seconds(event["at"]) - time.time() - shift) < NEAR
                            break
                plan = get(controller, "/v1/plans?limit=1")["plans"][0]
                assert abs(seconds(plan["at"]) - time.time() - shift) < NEAR
                epochs.append(plan["epoch"])
                assert abs(seconds(get(controller, "/v1/jobs/first/history")["at"]) - time.time() - shift) < NEAR
                for series in get(controller, "/v1/jobs/first/history")["series"]:
                    assert seconds(series["end"]) <= time.time() + shift + NEAR
                for path in ("/v1/health", "/v1/links", "/v1/trace", "/v1/cluster"):
                    get(controller, path)
            assert pushed == ["first", *(f"job{number}" for number in range(5))]
        assert epochs == sorted(set(epochs))
        # By number, not by time: the newest plan is the first.
        listed = [row["epoch"] for row in get(controller, "/v1/plans")["plans"]]
        assert listed == sorted(listed, reverse=True)
        last = event["id"]
    clock.set(-HOUR)
    with running(tmp_path, clock) as controller:
        assert {row["name"] for row in get(controller, "/v1/jobs")["jobs"]} == {"first", *(f"job{n}" for n in range(5))}
        assert get(controller, "/v1/plans?limit=1")["plans"][0]["epoch"] >= epochs[-1]
        push(controller, "after")
        assert get(controller, "/v1/plans?limit=1")["plans"][0]["epoch"] > epochs[-1]
        client = HttpClient(controller.address, timeout=PATIENCE_SECONDS)
        with client, contextlib.closing(client.events(f"/v1/events?after={last}")) as stream:
            # Of another run, though it began earlier by this clock: the client is told to read all again.
            assert next(stream)["kind"] == "reset"


def test_a_host_whose_clock_agreed_before_is_told_that_it_no_longer_does(tmp_path: Path, clock: ShiftedClock) -> None:
    with running(tmp_path, clock) as controller:

        def report() -> tuple[int, str]:
            pair = {"src": "h1", "dst": "h5", "udp_src": 50_000, "dst_qp": 7}
            document = {"qps": [pair], "qp": [0], "at": [time.time()], "bytes": [1000]}
            answer = controller.ask("POST", "/v1/sightings", document)
            return answer.status, json.dumps(answer.body)

        assert report()[0] == 200
        for shift in (DAY, -HOUR):
            clock.set(shift)
            status, why = report()
            assert (status, "from the controller's time" in why) == (422, True)
        clock.set(0)
        assert report()[0] == 200
        eventually(lambda: controller.ask("GET", "/v1/learned").status == 200, "learning goes on")
