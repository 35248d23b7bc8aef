"""What tests of the dashboard have in common: a browser, a controller without switches, and ways to use them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.documented import ROOT
from tests.rig.http.client import Server
from tests.rig.page.browser import Browser, browser
from tests.rig.real_controller import controller


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A controller with the jobs of the examples, and no switches."""
    with controller(tmp_path_factory.mktemp("served")) as (server, _):
        for job in ("gpt3-a", "llama-b"):
            assert put(server, f"/v1/jobs/{job}", json.loads((ROOT / f"examples/{job}.json").read_text())) == 201
        yield server


def flows(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"flows": [{"src": src, "dst": dst, "bytes": 1_000_000_000} for src, dst in pairs]}


def put(server: Server, path: str, body: object, secret: str = "") -> int:
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    return server.ask("PUT", path, json.dumps(body).encode(), headers).status


def choose(page: Browser, name: str, value: str) -> None:
    """Choose a radio button as a mouse does."""
    page.run(f"document.querySelector('input[name={name}][value={value}]').click()")
