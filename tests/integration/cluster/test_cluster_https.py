"""Replicas that use HTTPS, with certificates of an authority of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from controller.cli.connection.client import Client
from controller.cli.shared.command_error import CommandError
from emulation.controller_process import ControllerProcess, controller_command
from tests.documented import ROOT
from tests.rig.certificates import Authority, Pair
from tests.rig.controller import forked
from tests.rig.real_controller import FABRIC, free_ports
from tests.rig.waiting import READY_SECONDS, eventually

LEASE = "60"
"""Seconds; so long that a busy machine causes no change of leader."""


class Replica:
    """A replica without switches that answers in HTTPS."""

    def __init__(self, folder: Path, store: str, pair: Pair, ca: Path | str, *options: str) -> None:
        folder.mkdir()
        openflow, port = free_ports(2)
        self.url = f"https://127.0.0.1:{port}"
        command = controller_command(
            "--fabric",
            str(FABRIC),
            "--store",
            store,
            "--cluster-name",
            "a",
            "--lease",
            LEASE,
            "--https-cert",
            str(pair.cert),
            "--https-key",
            str(pair.key),
            "--cluster-ca",
            str(ca),
            *options,
            openflow_port=openflow,
            http_port=port,
        )
        spawn = forked(folder / "controller.log", {"HOME": str(folder)}, ROOT)
        # Its certificates are what is tested: the product's own client asks it.
        self.process = ControllerProcess(command, spawn).start(wait=False)

    @property
    def log(self) -> str:
        return self.process.log.read_text()

    def client(self, ca: Path) -> Client:
        return Client(self.url, ca_file=ca)

    def answers(self, ca: Path) -> bool:
        assert self.process.runs, self.log
        try:
            return bool(self.client(ca).request("GET", "cluster").document["leader"])
        except CommandError:
            return False

    def close(self) -> None:
        self.process.kill()


Start = Callable[..., Replica]


@pytest.fixture
def start(tmp_path: Path, postgres_url: str) -> Iterator[Start]:
    """Start a replica on the test's database, ``start(name, pair, ca, *options)``."""
    if shutil.which("openssl") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("openssl is not installed")
        pytest.skip("openssl is not installed")
    with ExitStack() as stack:

        def started(name: str, pair: Pair, ca: Path | str, *options: str) -> Replica:
            replica = Replica(tmp_path / name, postgres_url, pair, ca, *options)
            stack.callback(replica.close)
            return replica

        yield started


def test_a_follower_passes_requests_on_to_a_leader_whose_certificate_its_authority_has_signed(
    start: Start, tmp_path: Path
) -> None:
    ours, others = Authority(tmp_path / "ours"), Authority(tmp_path / "others")
    ca = tmp_path / "ca.pem"
    shutil.copy(ours.own.cert, ca)
    first = start("first", ours.sign("one"), ca)
    eventually(lambda: first.answers(ca), "the first replica leads")
    second = start("second", ours.sign("two"), ca)
    eventually(lambda: second.answers(ca), "the second one answers")
    follower = second.client(ca)
    assert follower.request("GET", "cluster").document["leader"] == first.url
    assert follower.request("PUT", "mode", body=b'{"mode": "frozen"}').status == 200
    assert first.client(ca).request("GET", "mode").document["mode"] == "frozen"

    # This one accepts only the certificates of another authority, which signs its own.
    third = start("third", others.sign("three"), others.own.cert)
    eventually(lambda: third.answers(others.own.cert), "the third one answers")
    for _ in range(3):
        with pytest.raises(CommandError, match=f"the certificate of the leader at {first.url} is not accepted: unable"):
            third.client(others.own.cert).request("GET", "plan")
    assert third.log.count("is not accepted") == 1
    assert f"(cluster_ca is {others.own.cert})" in third.log

    # The authority is replaced: the file holds both until every replica has a certificate of the new one.
    both = tmp_path / "both.pem"
    both.write_text(ours.own.cert.read_text() + others.own.cert.read_text())
    shutil.copy(both, others.own.cert)
    assert third.client(both).request("GET", "plan").document["mode"] == "frozen"
    for replica in (third, second, first):
        assert replica.process.stop(READY_SECONDS) == 0, replica.log
        assert "Traceback" not in replica.log


@pytest.mark.parametrize(
    ("ca", "url", "option", "reason"),
    [
        (
            "others.pem",
            "",
            "cluster_ca",
            "did not sign https_cert (one.pem), so other replicas would not accept it: un",
        ),
        ("", "", "https_cert", "other replicas would not accept it: "),
        (
            "ca.pem",
            "https://localhost:8080",
            "cluster_url",
            "https_cert (one.pem) is for another name: Hostname mismat",
        ),
        ("ca.pem", "http://127.0.0.1:8080", "cluster_url", "must begin with https, because https_cert is set"),
        ("missing", "", "cluster_ca", "No such file or directory"),
        ("one-key.pem", "", "cluster_ca", "has no certificate of an authority"),
    ],
)
def test_a_certificate_that_other_replicas_would_not_accept_is_one_line_at_the_start(
    start: Start, tmp_path: Path, ca: str, url: str, option: str, reason: str
) -> None:
    folder = tmp_path / "ours"
    pair = Authority(folder).sign("one")
    shutil.copy(Authority(tmp_path / "others").own.cert, folder / "others.pem")
    replica = start("one", pair, folder / ca if ca else "", *(["--cluster-url", url] if url else []))
    assert replica.process.wait(READY_SECONDS) == 2
    assert replica.log.startswith(f"ryu-manager: {option}: '")
    assert f": {reason.replace('one.pem', str(pair.cert))}" in replica.log
    assert replica.log.count("\n") == 1
