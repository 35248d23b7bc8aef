"""``fairspine sightings --tcp`` posts what connections between hosts of the fabric send, and nothing of others."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable

import pytest

from controller.cli.live import tcp_sightings
from controller.rest import schemas
from tests.unit.cli.fake_controller import Controller
from tests.unit.cli.running import Run

HOSTS = {"hosts": [{"name": f"h{n}", "ip": ip} for n, ip in enumerate(("127.0.0.1", "127.0.0.2", "127.0.0.9"))]}


def interrupted(monkeypatch: pytest.MonkeyPatch, work: Callable[[int], None], after: int) -> None:
    """In place of each pause between two readings, work; then Ctrl-C."""
    rounds = itertools.count()

    def pause(_: float) -> None:
        if (nth := next(rounds)) == after:
            raise KeyboardInterrupt
        work(nth)

    monkeypatch.setattr(time, "sleep", pause)


def test_bytes_between_hosts_are_posted_until_ctrl_c(
    run: Run, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp_sightings, "POST_SECONDS", 0.0)
    controller.lay_out((200, HOSTS), *[(200, {"qps": 1})] * 100)
    with socket.create_server(("127.0.0.2", 0)) as server:
        to = server.getsockname()
        with socket.create_connection(to, source_address=("127.0.0.1", 0)) as client, server.accept()[0] as accepted:

            def send(_: int) -> None:
                client.sendall(bytes(1000))
                left = 1000
                while left:
                    left -= len(accepted.recv(left))

            interrupted(monkeypatch, send, 20)
            code, _, err = run("sightings", "--tcp")
    assert (code, "between 3 hosts" in err) == (0, True), err
    (first, *posted) = controller.asked
    assert first[:2] == ("GET", "/v1/fabric")
    forms = [
        schemas.SightingsForm.model_validate_json(body) for method, path, body in posted if path == "/v1/sightings"
    ]
    assert len(forms) == len(posted)
    ends = {(qp.src, qp.dst, qp.protocol, qp.udp_src) for form in forms for qp in form.qps}
    assert ends == {("127.0.0.1", "127.0.0.2", "tcp", None), ("127.0.0.2", "127.0.0.1", "tcp", None)}
    told = [
        size for form in forms for qp, size in zip(form.qp, form.bytes, strict=True) if form.qps[qp].src == "127.0.0.1"
    ]
    # The last acknowledgements may be on their way.
    assert told[0] == 0
    assert told == sorted(told)
    assert 10_000 <= told[-1] <= 20_001


def test_where_there_is_nothing_to_tell_nothing_is_posted(
    run: Run, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp_sightings, "POST_SECONDS", 0.0)
    controller.lay_out((200, {"hosts": HOSTS["hosts"][:1]}))
    interrupted(monkeypatch, lambda _: None, 3)
    assert run("sightings", "--tcp")[0] == 0
    assert len(controller.asked) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--tcp", "--inspector", "x"], "--inspector: cannot be used with --tcp"),
        (["--tcp", "--hosts", "h1"], "--hosts: cannot be used with --tcp"),
        (["--tcp", "--as-if-now"], "--as-if-now: cannot be used with --tcp"),
        ([], "--inspector: is needed, or --tcp"),
    ],
)
def test_wrong_options_are_told_in_one_line(run: Run, controller: Controller, options: list[str], told: str) -> None:
    code, out, err = run("sightings", *options)
    assert (code, out, err) == (2, "", f"fairspine: {told}\n")
    assert controller.asked == []


def test_what_is_no_linux_is_told(run: Run, controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    code, _, err = run("sightings", "--tcp")
    assert (code, "counters of connections are those of Linux" in err) == (2, True)
    assert controller.asked == []
