"""Certificates as docs/how-to/openflow-tls.md makes them: two authorities, one for controllers and one for switches."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.integration.http_client import PATIENCE_SECONDS


@dataclass(frozen=True)
class Pair:
    """A key, its certificate, and the authority that the other side trusts."""

    key: Path
    cert: Path


@dataclass(frozen=True)
class Pki:
    """What ``ovs-pki`` has made in a folder."""

    folder: Path

    @property
    def switch_ca(self) -> Path:
        return self.folder / "pki" / "switchca" / "cacert.pem"

    @property
    def controller_ca(self) -> Path:
        return self.folder / "pki" / "controllerca" / "cacert.pem"

    def pair(self, name: str) -> Pair:
        return Pair(self.folder / f"{name}-privkey.pem", self.folder / f"{name}-cert.pem")


def make(folder: Path) -> Pki:
    """Authorities, and certificates ``ctl`` and ``sw``."""
    folder.mkdir()
    for command in (["init"], ["req+sign", "ctl", "controller"], ["req+sign", "sw", "switch"]):
        argv = ["ovs-pki", f"--dir={folder}/pki", f"--log={folder}/pki.log", *command]
        subprocess.run(argv, cwd=folder, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    return Pki(folder)
