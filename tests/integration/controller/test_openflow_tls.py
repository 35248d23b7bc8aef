"""OpenFlow over TLS with certificates by ovs-pki: switches with the right one are served, others get nothing."""

from __future__ import annotations

import socket
import ssl
import subprocess
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import yaml

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.southbound.forwarding.base import compile_base
from controller.southbound.openflow.connections.certificates import tls_context
from emulation.lab import Lab
from tests.rig import certificates
from tests.rig.bench import Bench
from tests.rig.certificates import Pair, Pki
from tests.rig.checks.rule_text import held, wanted
from tests.rig.controller import Controller
from tests.rig.http.client import PATIENCE_SECONDS
from tests.rig.launcher import refused
from tests.rig.real_controller import free_ports
from tests.rig.waiting import eventually, wait_for_pings

pytestmark = pytest.mark.switches

FABRIC = clos(2, 2, 1)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return certificates.make(tmp_path_factory.mktemp("tls") / "made")


def point(lab: Lab, target: str) -> None:
    for switch in FABRIC.switches:
        lab.ovs.vsctl("set", "controller", lab.wiring.switch(switch.name).bridge, f'target="{target}"')


def connected(controller: Controller, count: int) -> bool:
    return bool(controller.get("/healthz").body["switches"]["connected"] == count)


def answer(port: int, pair: Pair | None) -> bytes:
    """What somebody with this certificate hears from the controller."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if pair is not None:
        context.load_cert_chain(pair.cert, pair.key)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as plain,
        suppress(ssl.SSLError, ConnectionError),
        context.wrap_socket(plain) as wrapped,
    ):
        return wrapped.recv(8)
    return b""


def in_clear(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as plain, suppress(ConnectionError):
        plain.sendall(b"\x04\x00\x00\x08\x00\x00\x00\x01")
        return plain.recv(8)
    return b""


def test_switches_with_the_right_certificate_are_served_and_others_get_nothing_and_one_line_in_the_log(
    bench: Bench, pki: Pki, tmp_path: Path
) -> None:
    path = tmp_path / "fabric.yaml"
    path.write_text(yaml.safe_dump(fabric_document(FABRIC)))
    (port,) = free_ports(1)
    lab = bench.lab(FABRIC)
    ctl, sw = pki.pair("ctl"), pki.pair("sw")
    controller = bench.controller(
        "--fabric",
        str(path),
        "--ofp-ssl-listen-port",
        str(port),
        "--ctl-privkey",
        str(ctl.key),
        "--ctl-cert",
        str(ctl.cert),
        "--ca-certs",
        str(pki.switch_ca),
        "controller.app",
    )
    for _ in range(3):
        # The controller's own certificate is of another authority than the switches'.
        assert answer(port, ctl) == answer(port, None) == in_clear(port) == b""
    assert answer(port, sw)[:2] == b"\x04\x00"
    # Whoever is rejected hears it before it is in the log.
    eventually(
        lambda: controller.log.read_text().count("is rejected") >= 3, "each is told", shown=controller.log.read_text
    )
    log = controller.log.read_text()
    assert log.count("is rejected") == 3, log
    assert "certificate" in log
    lab.ovs.vsctl("set-ssl", str(sw.key), str(sw.cert), str(pki.controller_ca))
    point(lab, f"ssl:127.0.0.1:{port}")
    controller.wait_for("all switches are there", lambda: connected(controller, 4))
    rules = compile_base(FABRIC)
    for switch in FABRIC.switches:
        eventually(
            partial(lambda s, want: held(lab, s) == want, switch.name, wanted(rules[switch.dpid])),
            f"{switch.name} has its rules",
        )
    wait_for_pings(lab)
    # One connection a process is what Ryu's own listener can do.
    point(lab, f"ssl:127.0.0.1:0{port}")
    connections = ("--bare", "--columns=is_connected", "find", "Controller", f"target=ssl\\:127.0.0.1\\:0{port}")
    eventually(lambda: lab.ovs.vsctl(*connections).split() == ["true"] * 4, "they reconnect")
    # Nine connections from one address: one line a minute.
    assert 1 <= controller.log.read_text().count("is connected over TLS") < 9
    controller.wait_for("all are back", lambda: connected(controller, 4))


def test_a_switch_that_trusts_another_authority_rejects_the_controller(bench: Bench, pki: Pki) -> None:
    (port,) = free_ports(1)
    lab = bench.lab(FABRIC)
    ctl, sw = pki.pair("ctl"), pki.pair("sw")
    controller = bench.controller(
        "--ofp-ssl-listen-port",
        str(port),
        "--ctl-privkey",
        str(ctl.key),
        "--ctl-cert",
        str(ctl.cert),
        "--ca-certs",
        str(pki.switch_ca),
        "controller.app",
    )
    lab.ovs.vsctl("set-ssl", str(sw.key), str(sw.cert), str(pki.switch_ca))
    point(lab, f"ssl:127.0.0.1:{port}")
    controller.wait_for("it is told", lambda: "is rejected" in controller.log.read_text())
    assert connected(controller, 0)


def test_invalid_certificates_are_reported_before_the_start(pki: Pki, tmp_path: Path) -> None:
    ctl, sw = pki.pair("ctl"), pki.pair("sw")
    key, cert, ca = str(ctl.key), str(ctl.cert), str(pki.switch_ca)
    assert tls_context(None, None, None) is None
    made = tls_context(key, cert, ca)
    assert made is not None
    assert (made.minimum_version, made.verify_mode) == (ssl.TLSVersion.TLSv1_2, ssl.CERT_REQUIRED)
    empty = tmp_path / "empty.pem"
    empty.touch()
    locked = tmp_path / "locked.pem"
    argv = ["openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(argv, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    for args, field in (
        ((key, cert, None), "ca_certs"),
        ((key, None, ca), "ctl_cert"),
        ((None, cert, ca), "ctl_privkey"),
        ((str(tmp_path / "none.pem"), cert, ca), "ctl_privkey"),
        ((str(sw.key), cert, ca), "ctl_cert"),
        ((key, cert, str(empty)), "ca_certs"),
        ((str(locked), cert, ca), "ctl_privkey"),
    ):
        with pytest.raises(InputError) as caught:
            tls_context(*args)
        assert caught.value.field == field
    # By the launcher it is one line and status 2.
    assert "ca_certs" in refused("--ctl-privkey", key, "--ctl-cert", cert, "controller.app")
