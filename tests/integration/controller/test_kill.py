"""A controller that is killed while jobs are pushed: every acknowledged job exists after the restart."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import threading
import time
from pathlib import Path
from typing import Any

from tests.rig.forks import Forked, forks
from tests.rig.real_controller import FABRIC, free_ports
from tests.rig.waiting import eventually

KILLS = int(os.environ.get("KILLS", "15"))
"""``make kills`` has the long form."""

PATIENCE_SECONDS = 180

State = dict[str, str]
"""Revision by job name, and ``yes`` by drained spine."""


class Client:
    """Changes jobs and drains one after the other; knows what was answered, and what was asked last."""

    def __init__(self, port: int, seed: int) -> None:
        self.port = port
        self.answered: State = {}
        self.asked: tuple[str, str] = ("", "")
        self.changes = 0
        self._random = random.Random(seed)
        self._sizes = itertools.count(1)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)

    def change_until_cut_off(self) -> None:
        """Go on until the connection breaks."""
        connection = self.connect()
        try:
            while True:
                self._change(connection)
                self.changes += 1
        except (OSError, http.client.HTTPException):
            connection.close()

    def _change(self, connection: http.client.HTTPConnection) -> None:
        what, kind = self._random.choice("abcdefgh"), self._random.random()
        if kind < 0.2:
            spine, drained = f"spine{self._random.randint(1, 4)}", self._random.random() < 0.5
            self.asked = (spine, "drained" if drained else "")
            self._ask(connection, "PUT", f"/v1/fabric/links/{spine}", {"drained": drained})
            self._set(spine, self.asked[1])
        elif kind < 0.4 and what in self.answered:
            self.asked = (what, "")
            assert self._ask(connection, "DELETE", f"/v1/jobs/{what}")[0] == 204
            self._set(what, "")
        else:
            self.asked = (what, "?")
            size = next(self._sizes)
            flows = [{"src": "h1", "dst": "h5", "bytes": size}, {"src": "h9", "dst": "h2", "bytes": size}]
            status, revision = self._ask(connection, "PUT", f"/v1/jobs/{what}", {"flows": flows})
            assert status in (200, 201), status
            self._set(what, revision)

    def _set(self, name: str, value: str) -> None:
        if value:
            self.answered[name] = value
        else:
            self.answered.pop(name, None)
        self.asked = ("", "")

    def _ask(self, connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> tuple[int, str]:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        return response.status, response.getheader("ETag", "").strip('"')

    def kept(self) -> State | None:
        """What the controller says that there is; ``None``: it does not answer yet."""
        connection = self.connect()
        documents = []
        try:
            for path in ("/v1/plan", "/v1/jobs", *(f"/v1/fabric/links/spine{n}" for n in range(1, 5))):
                connection.request("GET", path)
                response = connection.getresponse()
                documents.append(json.loads(response.read()))
                if response.status != 200:
                    return None
        except OSError:
            return None
        finally:
            connection.close()
        jobs = {job["name"]: job["revision"] for job in documents[1]["jobs"]}
        return jobs | {link["id"]: "drained" for link in documents[2:] if link["drained"]}


def check(client: Client, kept: State) -> None:
    """Everything answered is there; what was asked for last may be."""
    name, value = client.asked
    if name and kept.get(name, "") != client.answered.get(name, ""):
        assert (kept.get(name, "") != "") == (value != "")
        client._set(name, kept.get(name, ""))
    client.asked = ("", "")
    assert kept == client.answered


def test_whatever_was_answered_outlives_many_kills(tmp_path: Path) -> None:
    openflow, port = free_ports(2)
    argv = ["--ofp-tcp-listen-port", str(openflow), "--wsapi-port", str(port), "--fabric", str(FABRIC)]
    argv += ["--store", f"sqlite:///{tmp_path}/store.db", "controller.app"]
    log = tmp_path / "controller.log"
    client, moments = Client(port, seed=7), random.Random(7)
    running: Forked | None = None
    try:
        for kill in range(KILLS + 1):
            running = forks().start(argv, log)
            if kill % 5 == 4:
                # In the middle of its start: it has changed nothing, and must not have broken anything.
                time.sleep(moments.random() * 0.4)
            else:
                kept, give_up = None, time.monotonic() + PATIENCE_SECONDS
                while (kept := client.kept()) is None:
                    assert time.monotonic() < give_up, log.read_text()[-3000:]
                    time.sleep(0.02)
                check(client, kept)
                changes = threading.Thread(target=client.change_until_cut_off)
                before = client.changes
                changes.start()
                # On a busy machine nothing may be answered meanwhile: most get as long as some changes need.
                if moments.random() < 0.8:
                    few = moments.randint(1, 5)
                    eventually(lambda few=few, before=before: client.changes >= before + few, "changes are answered")
                time.sleep(moments.choice([0.05, 0.2]) * moments.random())
            running.kill()
            running.wait(PATIENCE_SECONDS)
            if kill % 5 != 4:
                changes.join(PATIENCE_SECONDS)
    finally:
        if running is not None:
            running.kill()
    assert client.changes >= KILLS // 2
    assert "Traceback" not in log.read_text()
