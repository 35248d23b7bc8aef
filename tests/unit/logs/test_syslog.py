"""Syslog daemons on loopback and on a socket of this machine get each record, and none can hold the controller up."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.logs.line_formats import SyslogLines
from controller.logs.syslog import SyslogDatagrams, parse_address
from controller.model.errors import InputError
from controller.model.packets.port_numbers import MAX_PORT

PATIENCE = 60.0


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    made = logging.getLogger("tests.syslog")
    made.setLevel(logging.DEBUG)
    made.propagate = False
    yield made
    for handler in list(made.handlers):
        made.removeHandler(handler)
        handler.close()


def sender(address: str) -> SyslogDatagrams:
    made = SyslogDatagrams(parse_address(address))
    made.setFormatter(SyslogLines(as_json=False, pid=1, host="here"))
    return made


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_daemon_gets_messages_of_rfc_5424_with_facility_and_severity(
    log: logging.Logger, family: socket.AddressFamily, host: str
) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as daemon:
        daemon.settimeout(PATIENCE)
        daemon.bind((host, 0))
        port = daemon.getsockname()[1]
        log.addHandler(sender(f"[{host}]:{port}" if ":" in host else f"{host}:{port}"))
        for level, severity in ((logging.INFO, 6), (logging.WARNING, 4), (logging.ERROR, 3), (logging.DEBUG, 7)):
            log.log(level, "line\nbreak")
            message = daemon.recv(70_000).decode()
            # Facility 3: system daemons.
            expected = rf"<{3 * 8 + severity}>1 \S+Z here fairspine 1 - - tests\.syslog: line\\nbreak"
            assert re.fullmatch(expected, message)


def test_a_local_daemon_may_come_late_go_and_come_back(log: logging.Logger, tmp_path: Path) -> None:
    path = tmp_path / "log"
    log.addHandler(sender(str(path)))
    log.info("nobody listens")
    for number in range(2):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
            daemon.settimeout(PATIENCE)
            daemon.bind(str(path))
            log.info("line %d", number)
            assert daemon.recv(70_000).decode().endswith(f"line {number}")
        path.unlink()
        log.info("nobody listens")


def test_a_daemon_that_does_not_read_holds_nothing_up(
    log: logging.Logger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    log.addHandler(sender(str(path)))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
        daemon.bind(str(path))
        # More than any queue of a socket holds: a handler that waits for room would never return.
        for number in range(5_000):
            log.info("line %d %s", number, "x" * 1000)
        daemon.settimeout(PATIENCE)
        assert "line 0 " in daemon.recv(70_000).decode()
        log.info("there is room again")
        daemon.setblocking(False)
        lines = []
        while not lines or "room again" not in lines[-1]:
            lines.append(daemon.recv(70_000).decode())
    assert len(lines) < 5_000
    assert capsys.readouterr().err == ""


@given(st.integers(1, MAX_PORT))
def test_an_address_has_a_port_or_that_of_syslog(port: int) -> None:
    assert parse_address("127.0.0.1") == ("127.0.0.1", 514)
    assert parse_address(f"127.0.0.1:{port}") == ("127.0.0.1", port)
    assert parse_address("::1") == ("::1", 514)
    assert parse_address(f"[::1]:{port}") == ("::1", port)
    assert parse_address("/dev/log") == "/dev/log"


@pytest.mark.parametrize(
    "text", [":514", "127.0.0.1:0", f"127.0.0.1:{MAX_PORT + 1}", "127.0.0.1:x", "a b:1", "x" * 300, "[]:1"]
)
def test_what_is_no_address_is_refused_with_the_option(text: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_address(text)
    assert (refused.value.field, refused.value.value) == ("log_syslog", text)
