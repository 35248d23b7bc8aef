"""``ryu-manager`` with options that it must refuse."""

from __future__ import annotations

import tempfile

from tests.documented import ROOT
from tests.rig.forks import forks
from tests.rig.http.client import PATIENCE_SECONDS


def refused(*args: str) -> str:
    """What ``ryu-manager`` says when it does not start; it must be one line, and the status 2."""
    with tempfile.NamedTemporaryFile("r") as log:
        process = forks().start(args, log.name, folder=ROOT)
        try:
            assert process.wait(PATIENCE_SECONDS) == 2, log.read()
        finally:
            process.kill()
        said = log.read()
    assert len(said.splitlines()) == 1, said
    return said.strip()
