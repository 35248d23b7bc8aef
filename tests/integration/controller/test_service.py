"""The systemd unit, and docs/how-to/service.md word for word as far as that needs no systemd."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import pytest

from controller.cli.connection.client import Client, NoAnswer
from controller.cli.shared.command_error import CommandError
from controller.config import RYU_DEFAULTS, Settings, settings_from
from controller.routing import enforceable
from emulation.controller_process import RYU_MANAGER, ControllerProcess, controller_command, spawn_to
from tests.documented import ROOT
from tests.rig.http.client import PATIENCE_SECONDS
from tests.rig.real_controller import free_ports
from tests.rig.waiting import eventually

UNIT = ROOT / "etc" / "fairspine.service"
GUIDE = ROOT / "docs" / "how-to" / "service.md"
FENCES = re.findall(r"^```(\w*)\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
COMMANDS = [line for language, block in FENCES if language == "bash" for line in block.splitlines()]
OPTIONS = "".join(block for language, block in FENCES if language == "ini")

BIN = Path(sys.executable).parent
INSTALLING = ("git", "make", "ln", "useradd", "mkdir", "cp", "systemctl")
"""Commands that change the machine; each file and folder that they name is checked instead."""


def unit() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return parser


def named(text: str, name: str = "fairspine") -> str:
    """What systemd makes of a setting in the unit of this name."""
    return text.replace("%N", name)


@pytest.mark.parametrize("name", ["fairspine.service", "fairspine@.service"])
def test_systemd_finds_nothing_wrong_with_the_unit_nor_with_it_as_a_template(tmp_path: Path, name: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # Where the program is on this machine; systemd wants to see it.
    text = UNIT.read_text().replace("/opt/fairspine/.venv/bin", str(BIN))
    copy = tmp_path / name
    copy.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_starts_what_the_guide_installs() -> None:
    program, *arguments = shlex.split(named(unit()["Service"]["ExecStart"]))
    assert program == "/opt/fairspine/.venv/bin/ryu-manager"
    assert (BIN / "ryu-manager").exists()
    assert arguments == ["--config-file", "/etc/fairspine/fairspine.conf", "controller.app"]
    home = named(unit()["Service"]["StateDirectory"])
    assert f"useradd --system --user-group --home-dir /var/lib/{home} " in GUIDE.read_text()
    assert unit()["Service"]["User"] in GUIDE.read_text()


def test_instances_of_the_template_share_neither_configuration_nor_state() -> None:
    for setting in ("ExecStart", "StateDirectory"):
        text = unit()["Service"][setting]
        assert len({named(text, name) for name in ("fairspine", "fairspine@a", "fairspine@b")}) == 3
    # What the guide tells to edit is what the instance reads.
    assert f" {shlex.split(named(unit()['Service']['ExecStart'], 'fairspine@fabric-2'))[2]}\n" in GUIDE.read_text()


def test_compiled_kernels_are_allowed_and_kept() -> None:
    service = unit()["Service"]
    assert "MemoryDenyWriteExecute" not in service
    assert service["Environment"] == f"NUMBA_CACHE_DIR=%C/{service['CacheDirectory']}"
    assert shlex.split(service["ExecStartPre"]) == ["/opt/fairspine/.venv/bin/fairspine", "warm-up"]


def silent(listener: socket.socket) -> bool:
    """Whether nothing more comes, once what is on its way was taken."""
    for _ in range(10):
        try:
            listener.recv(100)
        except TimeoutError:
            return True
    return False


def test_systemd_hears_when_it_is_ready_and_that_it_works_until_it_hangs(tmp_path: Path) -> None:
    openflow, port = free_ports(2)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        # After a fresh installation kernels are compiled first.
        listener.settimeout(4 * PATIENCE_SECONDS)
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000000"}
        command = controller_command("--store", "memory", openflow_port=openflow, http_port=port)
        process = ControllerProcess(command, spawn_to(tmp_path / "log", env=env, folder=ROOT)).start(wait=False)
        try:
            assert listener.recv(100).startswith(b"READY=1")
            # Who is told so may ask at once.
            with pytest.raises(CommandError):
                Client(f"http://localhost:{port}").request("GET", "jobs", "none")
            for _ in range(3):
                assert listener.recv(100) == b"WATCHDOG=1"
            # It hangs as a whole: nothing is left that could say otherwise.
            process.signal(signal.SIGSTOP)
            listener.settimeout(2.0)
            assert silent(listener)
            listener.settimeout(PATIENCE_SECONDS)
            process.signal(signal.SIGCONT)
            assert listener.recv(100) == b"WATCHDOG=1"
            assert process.stop(PATIENCE_SECONDS) == 0
        finally:
            process.kill()
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_the_unit_restarts_what_ends_or_hangs_and_bounds_its_memory() -> None:
    service = unit()["Service"]
    assert (service["Type"], service["Restart"], service["OOMPolicy"]) == ("notify", "always", "continue")
    assert {"WatchdogSec", "MemoryHigh", "MemoryMax"} <= set(service)
    # The socket of systemd, and the system calls for it.
    assert "AF_UNIX" in service["RestrictAddressFamilies"]
    assert service["SystemCallFilter"] == "@system-service"


def test_every_option_of_the_configuration_files_exists() -> None:
    known: dict[str, Callable[[str], object]] = {option.name: type(option.default) for option in fields(Settings)}
    known |= {name: type(default) for name, default in RYU_DEFAULTS.items()}
    example = (ROOT / "etc" / "fairspine.conf").read_text()
    # What is commented out shows the default, so it must be an option's name, too.
    lines = re.findall(r"^(?:# )?([a-z_]+) = (.*)$", example + OPTIONS, re.MULTILINE)
    assert len(lines) > 20
    values = {option.name: option.default for option in fields(Settings)}
    for name, text in lines:
        value = known[name](text)
        if name in values:
            values[name] = value
    settings_from(values, policies=enforceable())


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.split()[0] in ("make", "cp", "ln")])
def test_what_is_installed_is_there(command: str) -> None:
    program, *arguments = shlex.split(command)
    if program == "make":
        assert re.search(rf"^{arguments[-1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    else:
        source = arguments[-2].replace("/opt/fairspine/.venv/bin", str(BIN)).replace("/opt/fairspine", str(ROOT))
        assert Path(source).exists()


@contextmanager
def started(conf: Path, folder: Path, secret: str) -> Iterator[tuple[str, Path]]:
    """What the unit starts, with this configuration and ports of its own; its address and its log."""
    openflow, port = free_ports(2)
    _, *arguments = shlex.split(
        named(unit()["Service"]["ExecStart"]).replace("/etc/fairspine/fairspine.conf", str(conf))
    )
    ports = ["--ofp-tcp-listen-port", str(openflow), "--wsapi-port", str(port)]
    log = folder / "controller.log"
    # As systemd sets it for a unit with a StateDirectory.
    env = {"STATE_DIRECTORY": str(folder / "state"), "HOME": "/nonexistent"}
    process = ControllerProcess([RYU_MANAGER, *arguments, *ports], spawn_to(log, env=env, folder=folder))
    process.start(wait=False)
    try:
        client = Client(f"https://localhost:{port}", token=secret, ca_file=conf.with_name("cert.pem"))

        def answers() -> bool:
            assert process.runs, log.read_text()
            try:
                client.request("GET", "plan")
            except NoAnswer:
                return False
            return True

        eventually(answers, "the controller has a plan")
        yield f"localhost:{port}", log
        assert process.stop(PATIENCE_SECONDS) == 0
        assert "Traceback" not in log.read_text(), log.read_text()
        assert [path.name for path in (folder / "state").glob("*.db")] == ["fairspine.db"]
    finally:
        process.kill()


def test_the_guide_works_from_a_certificate_to_a_rollback(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    etc = tmp_path / "etc"
    etc.mkdir()

    def here(text: str) -> str:
        return text.replace("/etc/fairspine", str(etc)).replace("/opt/fairspine", str(ROOT))

    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "XDG_CONFIG_HOME": str(tmp_path)}

    def run(commands: list[str]) -> str:
        # Who is not root may not give files away, and there is no user of the service here.
        script = "\n".join(["set -e", "chown() { :; }", *commands])
        done = subprocess.run(
            ["bash", "-c", here(script)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=4 * PATIENCE_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    commands = [line for line in COMMANDS if line.split()[0] not in INSTALLING]
    first = next(i for i, line in enumerate(commands) if line.startswith("export "))
    run(commands[:first])
    secret = (tmp_path / "operator.secret").read_text().strip()
    shutil.copy(ROOT / "examples" / "clos-4x4x4.yaml", etc / "fabric.yaml")
    # The ports are the test's, and so is the address: what is listened on elsewhere, others could reach.
    options = OPTIONS.replace("0.0.0.0", "127.0.0.1")
    (etc / "fairspine.conf").write_text(here(options))
    with started(etc / "fairspine.conf", tmp_path, secret) as (address, log):
        # Long lines of the commands are broken.
        said = " ".join(run([line.replace("localhost:8080", address) for line in commands[first:]]).split())
        assert secret not in log.read_text() + said
    for text in ("0 jobs", "would move", "active on every switch", "drained", "back in use", "rollback", "planned:"):
        assert text in said, said
