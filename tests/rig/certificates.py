"""Certificates for tests: those of docs/how-to/openflow-tls.md, with two authorities, and those of HTTPS servers."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.rig.http.client import PATIENCE_SECONDS


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


class Authority:
    """An authority of the test's own, whose certificates are for names of HTTPS servers."""

    def __init__(self, folder: Path) -> None:
        """Make its certificate in a new folder."""
        folder.mkdir()
        self._folder = folder
        self.own = self._make("ca", "/CN=authority of a test", "basicConstraints=critical,CA:TRUE", "-x509")

    def sign(self, name: str, subject: str = "IP:127.0.0.1") -> Pair:
        """Make a certificate for a name (``IP:...`` or ``DNS:...``), in a file that has this name."""
        signed = ["-x509", "-CA", str(self.own.cert), "-CAkey", str(self.own.key)]
        return self._make(name, f"/CN={name}", f"subjectAltName={subject}", *signed)

    def sign_expired(self, name: str, subject: str = "IP:127.0.0.1") -> Pair:
        """Make a certificate that was valid in January of 2020. (``openssl req`` cannot, ``openssl ca`` can.)"""
        files = {name: self._folder / f"{name}.{name}" for name in ("conf", "ext", "index")}
        files["conf"].write_text(
            f"[ca]\ndefault_ca = a\n[a]\ndatabase = {files['index']}\nnew_certs_dir = {self._folder}\n"
            f"serial = {self._folder}/serial\nunique_subject = no\ndefault_md = sha256\n"
            "policy = p\n[p]\ncommonName = supplied\n"
        )
        files["ext"].write_text(f"subjectAltName={subject}\n")
        files["index"].touch()
        request = self._make(name, f"/CN={name}", f"subjectAltName={subject}")
        pair = Pair(request.key, self._folder / f"{name}-expired.pem")
        argv = ["openssl", "ca", "-config", str(files["conf"]), "-batch", "-notext", "-rand_serial"]
        argv += ["-cert", str(self.own.cert), "-keyfile", str(self.own.key), "-extfile", str(files["ext"])]
        argv += ["-startdate", "20200101000000Z", "-enddate", "20200201000000Z"]
        argv += ["-in", str(request.cert), "-out", str(pair.cert)]
        subprocess.run(argv, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
        return pair

    def _make(self, name: str, subject: str, extension: str, *options: str) -> Pair:
        pair = Pair(self._folder / f"{name}-key.pem", self._folder / f"{name}.pem")
        argv = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        argv += ["-subj", subject, "-addext", extension, "-keyout", str(pair.key), "-out", str(pair.cert), *options]
        subprocess.run(argv, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
        return pair
