"""Agents on machines that lack what they need say so in one line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.switches

PROGRAM = [sys.executable, "-m", "controller.cli.main"]
WITHOUT_RIGHTS = ["--bounding-set=-all", "--inh-caps=-all"]
ROOT = "needs root (CAP_NET_ADMIN and CAP_NET_RAW)"
NFT = "the program nft is missing (Debian: "


@pytest.mark.parametrize(
    ("command", "rights", "programs", "said"),
    [
        ("agent h1 --interface peer1", WITHOUT_RIGHTS, ["ip", "nft"], ROOT),
        ("agent h1 --interface peer1", ["--bounding-set=-net_admin"], ["ip", "nft"], ROOT),
        (
            "port-agent h1 --interface peer1",
            WITHOUT_RIGHTS,
            ["ip", "nft"],
            "root, or the right CAP_NET_RAW, is needed to send probes",
        ),
        (
            "agent h1 --interface peer1 --steering nft",
            [],
            ["ip"],
            f"--steering nft: {NFT}",
        ),
        ("agent h1 --interface peer1 --pacing htb", [], ["ip"], f"--pacing: {NFT}"),
        ("agent h1 --interface peer2", [], ["ip", "nft"], "--interface: there is no interface 'peer2' here"),
    ],
)
def test_what_is_missing_is_said_in_one_line(
    command: str, rights: list[str], programs: list[str], said: str, tmp_path: Path
) -> None:
    for name in programs:
        usual = shutil.which(name)
        assert usual is not None
        (tmp_path / name).symlink_to(usual)
    arguments = [*command.split(), "--state", str(tmp_path / "state")]
    inside = [shutil.which("setpriv") or "", *rights, *PROGRAM, *arguments] if rights else [*PROGRAM, *arguments]
    make = f'{shutil.which("ip")} link add peer1 type veth peer name other; exec env PATH={tmp_path} "$@"'
    done = subprocess.run(["unshare", "--net", "sh", "-c", make, "sh", *inside], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"fairspine: {said}")
