"""Processes are ended by who they are, never by what they are called, and what a killed lab left is found again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from emulation.errors import LabError
from emulation.processes import (
    FIRST,
    LABEL,
    Child,
    Identity,
    identity,
    is_alive,
    kill_all,
    labelled,
    listens,
    run_first,
)
from emulation.runfile import RUN_FOLDER_VARIABLE, RunFile, sweep_dead
from tests.rig.priority import nice

SLEEP = ["sleep", "100"]
PATIENCE_SECONDS = 60.0
# A child that leaves its session, its parent and its standard files behind, and says its process id.
ORPHAN = ["sh", "-c", "setsid sleep 100 > /dev/null 2>&1 & echo $!"]
OWNER = """
import os, sys, time
from pathlib import Path
from emulation.processes import LABEL, Child
from emulation.runfile import RunFile
runfile = RunFile()
script = "setsid sleep 100 & echo up; exec sleep 100"
child = Child("child", ["sh", "-c", script], Path(sys.argv[1]), os.environ | {LABEL: runfile.label}, append=False)
runfile.add_process("child", child.pid)
child.wait_until(lambda: "up" in child.log.read_text(), "both are up", 60)
print(runfile.label, flush=True)
time.sleep(100)
"""


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(RUN_FOLDER_VARIABLE, str(tmp_path / "run"))
    return tmp_path / "run"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP) as process:
        yield process
        process.kill()


def who(pid: int) -> Identity:
    process = identity(pid)
    assert process is not None
    return process


def gone(process: Identity) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while is_alive(process) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_alive(process)


def test_a_reused_process_id_is_another_process(sleeper: subprocess.Popen[bytes]) -> None:
    real = who(sleeper.pid)
    earlier = Identity(real.pid, real.started - 1)
    assert not is_alive(earlier)
    assert kill_all([earlier]) == []
    assert sleeper.poll() is None
    assert kill_all([real]) == []
    assert sleeper.wait() == -signal.SIGKILL


def test_a_zombie_is_not_a_running_process(sleeper: subprocess.Popen[bytes]) -> None:
    process = who(sleeper.pid)
    sleeper.kill()
    assert gone(process)
    assert sleeper.returncode is None


def environment(pid: int) -> str:
    return Path(f"/proc/{pid}/environ").read_text(errors="replace")


def command(process: Identity) -> str:
    return Path(f"/proc/{process.pid}/comm").read_text().strip()


def until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_label_finds_descendants_that_left_their_session_and_their_parent(tmp_path: Path) -> None:
    label = f"test-{os.getpid()}"
    child = Child("orphan", ORPHAN, tmp_path / "log", os.environ | {LABEL: label}, append=False)
    assert child.wait(PATIENCE_SECONDS) == 0
    orphan = who(int((tmp_path / "log").read_text()))
    # While it becomes setsid and then sleep, it has no environment for a moment.
    until(lambda: Path(f"/proc/{orphan.pid}/comm").read_text() == "sleep\n" and label in environment(orphan.pid))
    try:
        assert orphan in labelled(label)
        assert labelled(label + "0") == labelled(label[:-1]) == []
    finally:
        kill_all([orphan])
    assert labelled(label) == []


def test_a_child_that_ignores_sigterm_is_killed_and_a_frozen_one_still_gets_it(tmp_path: Path) -> None:
    stubborn = Child(
        "stubborn",
        ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"],
        tmp_path / "a",
        os.environ,
        append=False,
    )
    stubborn.wait_until(lambda: "up" in stubborn.log.read_text(), "it is up", PATIENCE_SECONDS)
    assert stubborn.stop(timeout=0.2) == -signal.SIGKILL
    frozen = Child("frozen", SLEEP, tmp_path / "b", os.environ, append=False)
    frozen.signal(signal.SIGSTOP)
    assert frozen.stop() == -signal.SIGTERM


def test_waiting_for_a_process_that_ended_reports_its_last_output(tmp_path: Path) -> None:
    child = Child(
        "switch", ["sh", "-c", "seq 100; echo no space left; exit 3"], tmp_path / "log", os.environ, append=False
    )
    with pytest.raises(LabError) as caught:
        child.wait_until(lambda: False, "it is ready", PATIENCE_SECONDS)
    text = str(caught.value)
    assert "switch ended with status 3 before it is ready" in text
    assert str(tmp_path / "log") in text
    assert text.endswith("no space left")
    assert "\n  1\n" not in text


def test_waiting_for_something_that_does_not_come_has_an_end(tmp_path: Path) -> None:
    child = Child("idle", SLEEP, tmp_path / "log", os.environ, append=False)
    try:
        with pytest.raises(LabError, match=r"not within 0\.1 s: it is ready"):
            child.wait_until(lambda: False, "it is ready", 0.1)
    finally:
        child.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may take the processor before others")
def test_a_child_runs_first_with_its_own_session_and_not_with_that_of_others(tmp_path: Path) -> None:
    mine = nice(os.getpid())
    child = Child("idle", SLEEP, tmp_path / "log", os.environ, append=False)
    guest = subprocess.Popen(SLEEP)
    try:
        shares = nice(child.pid)[1] is not None
        child.run_first()
        run_first(guest.pid)
        assert nice(child.pid) == (FIRST, FIRST if shares else None)
        assert nice(guest.pid) == (FIRST, mine[1])
    finally:
        child.kill()
        guest.kill()
        guest.wait()
    assert nice(os.getpid()) == mine


def test_a_socket_listens_only_once_it_takes_connections(tmp_path: Path) -> None:
    folder = tmp_path / ("a long name " * 10)
    assert not listens(folder / "socket")
    folder.mkdir()
    assert not listens(folder / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        before = Path.cwd()
        os.chdir(folder)
        try:
            server.bind("socket")
        finally:
            os.chdir(before)
        assert not listens(folder / "socket")
        server.listen()
        assert listens(folder / "socket")
    assert not listens(folder / "socket")


def test_a_program_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="ghost cannot be started: /no/such: No such file"):
        Child("ghost", ["/no/such"], tmp_path / "log", os.environ, append=False)


def test_a_log_goes_on_where_a_child_comes_back_and_begins_anew_otherwise(tmp_path: Path) -> None:
    for word, append in (("old", False), ("one", False), ("two", True)):
        Child("echo", ["echo", word], tmp_path / "log", os.environ, append=append).wait(PATIENCE_SECONDS)
    assert (tmp_path / "log").read_text() == "one\ntwo\n"


def test_what_an_owner_left_that_was_killed_is_swept_at_the_next_start(run_folder: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", OWNER, str(tmp_path / "log")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        label = owner.stdout.readline().strip()
        # While the shell's children become setsid and sleep, they have no environment for a moment.
        until(lambda: len(labelled(label)) == 2 and set(map(command, labelled(label))) == {"sleep"})
        left = labelled(label)
        swept_too_early = sweep_dead()
        owner.kill()
    assert len(left) == 2
    assert swept_too_early == []
    assert all(map(is_alive, left))
    assert sweep_dead() == [label]
    assert not any(map(is_alive, left))
    assert list(run_folder.iterdir()) == []
    assert sweep_dead() == []


def test_a_recorded_process_id_that_is_now_another_process_is_not_ended(
    run_folder: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    runfile = RunFile()
    runfile.add_process("sleeper", sleeper.pid)
    record = json.loads((runfile.folder / "run.json").read_text())
    record["processes"][f"sleeper/{sleeper.pid}"][1] -= 1
    (runfile.folder / "run.json").write_text(json.dumps(record))
    runfile.sweep()
    assert sleeper.poll() is None
    assert not runfile.folder.exists()


def test_a_record_of_an_earlier_boot_ends_no_process(run_folder: Path, sleeper: subprocess.Popen[bytes]) -> None:
    runfile = RunFile()
    runfile.add_process("sleeper", sleeper.pid)
    record = json.loads((runfile.folder / "run.json").read_text())
    (runfile.folder / "run.json").write_text(json.dumps(record | {"boot": "another"}))
    runfile.sweep()
    assert sleeper.poll() is None
    assert not runfile.folder.exists()


def test_a_folder_without_a_record_and_folders_of_others_are_distinguished(run_folder: Path) -> None:
    empty = run_folder / "1-999999999999-abcdef"
    other = run_folder / "somebody-elses-folder"
    empty.mkdir(parents=True)
    other.mkdir()
    assert sweep_dead() == [empty.name]
    assert list(run_folder.iterdir()) == [other]
