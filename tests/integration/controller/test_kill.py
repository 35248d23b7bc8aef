"""A controller that is killed while jobs are pushed: every acknowledged job exists after the restart."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from emulation.controller_process import ControllerProcess, controller_command
from emulation.http_client import HttpClient, NoResponseError
from tests.rig.controller import forked
from tests.rig.real_controller import FABRIC, free_ports
from tests.rig.waiting import eventually

KILLS = int(os.environ.get("KILLS", "15"))
"""``make kills`` has the long form."""

PATIENCE_SECONDS = 180

State = dict[str, str]
"""Revision by job name, and ``yes`` by drained spine."""


class Client:
    """Changes jobs and drains one after the other; knows what was answered, and what was asked last."""

    def __init__(self, controller: ControllerProcess, seed: int) -> None:
        self._controller = controller
        self.answered: State = {}
        self.asked: tuple[str, str] = ("", "")
        self.changes = 0
        self._random = random.Random(seed)
        self._sizes = itertools.count(1)

    def change_until_cut_off(self) -> None:
        """Go on until the connection breaks."""
        with self._controller.client(keep=True) as http, suppress(NoResponseError):
            while True:
                self._change(http)
                self.changes += 1

    def _change(self, http: HttpClient) -> None:
        what, kind = self._random.choice("abcdefgh"), self._random.random()
        if kind < 0.2:
            spine, drained = f"spine{self._random.randint(1, 4)}", self._random.random() < 0.5
            self.asked = (spine, "drained" if drained else "")
            http.ask("PUT", f"/v1/fabric/links/{spine}", {"drained": drained})
            self._set(spine, self.asked[1])
        elif kind < 0.4 and what in self.answered:
            self.asked = (what, "")
            assert http.ask("DELETE", f"/v1/jobs/{what}").status == 204
            self._set(what, "")
        else:
            self.asked = (what, "?")
            size = next(self._sizes)
            flows = [{"src": "h1", "dst": "h5", "bytes": size}, {"src": "h9", "dst": "h2", "bytes": size}]
            response = http.ask("PUT", f"/v1/jobs/{what}", {"flows": flows})
            assert response.status in (200, 201), response.status
            self._set(what, response.headers["ETag"].strip('"'))

    def _set(self, name: str, value: str) -> None:
        if value:
            self.answered[name] = value
        else:
            self.answered.pop(name, None)
        self.asked = ("", "")

    def kept(self) -> State | None:
        """What the controller says that there is; ``None``: it does not answer yet."""
        documents = []
        try:
            with self._controller.client(keep=True) as http:
                for path in ("/v1/plan", "/v1/jobs", *(f"/v1/fabric/links/spine{n}" for n in range(1, 5))):
                    response = http.ask("GET", path)
                    if response.status != 200:
                        return None
                    documents.append(response.body)
        except NoResponseError:
            return None
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
    files = ("--fabric", str(FABRIC), "--store", f"sqlite:///{tmp_path}/store.db")
    log = tmp_path / "controller.log"
    command = controller_command(*files, openflow_port=openflow, http_port=port)
    running = ControllerProcess(command, forked(log), http_port=port, timeout=PATIENCE_SECONDS)
    client, moments = Client(running, seed=7), random.Random(7)
    try:
        for kill in range(KILLS + 1):
            running.start(wait=False)
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
                    eventually(partial(lambda least: client.changes >= least, before + few), "changes are answered")
                time.sleep(moments.choice([0.05, 0.2]) * moments.random())
            running.kill()
            if kill % 5 != 4:
                changes.join(PATIENCE_SECONDS)
    finally:
        running.kill()
    assert client.changes >= KILLS // 2
    assert "Traceback" not in log.read_text()
