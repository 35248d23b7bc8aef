"""Repeated events of one switch give at most one log line of each kind per minute."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

from controller import ryu_compat

ryu_compat.prepare()

import pytest  # noqa: E402 (Ryu first)
from ryu.ofproto import ofproto_v1_3 as ofp  # noqa: E402

from controller.service.reconciling.cabling_report import CablingReport  # noqa: E402
from controller.southbound.cabling.findings import EXTRA_SWITCH, Finding  # noqa: E402
from controller.southbound.cabling.survey import Survey  # noqa: E402
from controller.southbound.limits.quiet_log import QuietLog  # noqa: E402
from controller.southbound.openflow.connections import listener  # noqa: E402
from controller.southbound.openflow.connections.listener import OpenFlowServer  # noqa: E402
from controller.southbound.openflow.enforcing.meters import Meters  # noqa: E402
from controller.southbound.openflow.enforcing.request_channel import Refused, SwitchGone  # noqa: E402
from controller.southbound.openflow.enforcing.session import Session  # noqa: E402
from controller.southbound.rollout.update import RuleEdit  # noqa: E402
from controller.southbound.rollout.write_permission import WritePermission  # noqa: E402
from controller.southbound.rules.rule import Rule, match  # noqa: E402

LOG = logging.getLogger("fairspine.southbound")


def test_unknown_switches_that_connect_and_disconnect_cause_few_log_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    report = CablingReport(True)
    with caplog.at_level(logging.INFO):
        for number in range(1000):
            extra = Finding(EXTRA_SWITCH, f"{number % 500:#x}", f"switch {number % 500:#x} is not intended")
            cable = Finding("missing", "leaf1-spine1", f"leaf1-spine1 is missing, for the time {number}")
            report.report(Survey(None, (extra, cable)))
            report.report(Survey(None, ()))
    texts = [record.getMessage() for record in caplog.records]
    assert 1 <= sum("not intended" in text for text in texts) <= 30
    assert sum("is missing" in text for text in texts) == 1000


class Connection:
    """As far as its number goes."""

    id = 7


class Again:
    """An installer that sees the same switch in one connection after the other."""

    instance, meters, rollout = 1, False, None

    def __init__(self) -> None:
        self.quiet = QuietLog(LOG)
        self.permission = WritePermission()

    def moved_on(self) -> None:
        pass

    settled = moved_on


def test_a_switch_that_comes_back_without_end_and_never_answers_is_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator: Any = Again()
    for _ in range(100):
        one = Session(coordinator, Connection(), "leaf7")

        def gone() -> None:
            raise SwitchGone("no answer")

        def over(_seconds: float, _until: object, session: Session = one) -> None:
            session._running = False

        monkeypatch.setattr(one, "_read", gone)
        monkeypatch.setattr(one, "_back_off", over)
        one._run()
    assert [record.getMessage() for record in caplog.records] == ["leaf7: no answer; next attempt in 0.5 s"]


def test_refused_meters_are_one_line_however_often_a_switch_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    quiet = QuietLog(LOG)
    rule = Rule(0, 1, match(eth_type=0x800), meter=1)
    error = SimpleNamespace(type=ofp.OFPET_METER_MOD_FAILED, code=ofp.OFPMMFC_UNKNOWN_METER, data=b"")
    for _ in range(100):
        meters = Meters(True, quiet)
        meters.usable = True
        assert meters.given_up("leaf1", [Refused(error, RuleEdit(True, rule))])
        meters.usable = True
        assert meters.given_up("leaf1", [Refused(error, RuleEdit(True, rule))])
    assert len(caplog.records) == 1


def test_a_switch_that_connects_over_tls_without_end_is_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wrapped = SimpleNamespace(do_handshake=lambda: None, setsockopt=None, settimeout=None)
    monkeypatch.setattr(listener, "GreenSSLSocket", lambda *_, **__: wrapped)
    server = OpenFlowServer.__new__(OpenFlowServer)
    server._quiet = QuietLog(LOG)
    with caplog.at_level(logging.INFO, LOG.name):
        for port in range(100):
            assert server._encrypted(SimpleNamespace(getpeername=lambda: None), ("10.0.0.9", port), None) is not None  # type: ignore[arg-type]
    assert [record.getMessage() for record in caplog.records] == ["10.0.0.9:0 is connected over TLS"]
