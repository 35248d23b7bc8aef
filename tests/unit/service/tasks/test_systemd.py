"""Notifications to systemd, and cases without any."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.service.tasks.systemd import Watchdog, notify, period
from controller.service.tasks.vital_tasks import VitalTasks


class Stop(BaseException):
    """The time of the test is over."""


class Loop:
    """A runtime in which sleeping takes as long as it is told to."""

    def __init__(self, naps: list[float]) -> None:
        self.naps, self.now = naps, 0.0
        self.tasks: list[Any] = []

    def spawn(self, task: Any) -> None:
        self.tasks.append(task)

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        if not self.naps:
            raise Stop
        self.now += seconds + self.naps.pop(0)


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(tmp_path / "notify"))
        made.setblocking(False)
        yield made


def heard(listener: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(listener.recv(4096).decode())
        except BlockingIOError:
            return found


def beat(listener: socket.socket, naps: list[float], ended: list[str], **more: str) -> list[str]:
    """What is heard of a heart whose event loop is so many seconds late each time."""
    loop = Loop(naps)
    environment = {"NOTIFY_SOCKET": str(listener.getsockname()), "WATCHDOG_USEC": "20000000", **more}
    Watchdog(loop, ended, environment).start()  # type: ignore[arg-type]
    for task in loop.tasks:
        with pytest.raises(Stop):
            task()
    return heard(listener)


def test_ready_is_notified_once_and_then_the_watchdog_every_half_period(listener: socket.socket) -> None:
    assert beat(listener, [0.0, 0.1, 9.0], []) == ["READY=1\nSTATUS=running", *["WATCHDOG=1"] * 4]


def test_an_event_loop_that_is_late_leaves_a_beat_out_and_beats_again_when_it_is_not(listener: socket.socket) -> None:
    assert beat(listener, [10.5, 0.0, 30.0], []) == ["READY=1\nSTATUS=running", "WATCHDOG=1", "WATCHDOG=1"]


def test_an_essential_task_that_ended_stops_the_notifications_and_is_logged_once(
    listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    assert beat(listener, [0.0, 0.0], ["orders are carried out"]) == ["READY=1\nSTATUS=running"]
    assert caplog.text.count("orders are carried out") == 1


@pytest.mark.parametrize("usec", ["", "0", "-1", "x", "\u0663"])
def test_without_a_watchdog_there_is_no_beat(listener: socket.socket, usec: str) -> None:
    assert beat(listener, [0.0], [], WATCHDOG_USEC=usec) == ["READY=1\nSTATUS=running"]


def test_the_watchdog_of_another_process_is_not_ours() -> None:
    assert period({"WATCHDOG_USEC": "20000000", "WATCHDOG_PID": "17"}, 17) == 10.0
    assert period({"WATCHDOG_USEC": "20000000", "WATCHDOG_PID": "18"}, 17) is None


def test_an_invalid_socket_name_or_a_missing_listener_has_no_effect() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind("\0fairspine-test-notify")
        assert notify("@fairspine-test-notify", "READY=1")
        assert made.recv(100) == b"READY=1"
    assert not notify("@fairspine-test-notify", "READY=1")
    assert not notify("/nonexistent/socket", "READY=1")
    assert not notify("", "READY=1")


def test_a_task_that_ends_by_itself_or_by_an_error_is_known_by_its_name() -> None:
    loop = Loop([])
    tasks = VitalTasks(loop)  # type: ignore[arg-type]
    tasks.spawn("returns", lambda: None)
    tasks.spawn("fails", lambda: 1 // 0)  # type: ignore[arg-type,return-value]
    loop.tasks[0]()
    with pytest.raises(ZeroDivisionError):
        loop.tasks[1]()
    assert tasks.ended == ["returns", "fails"]
