"""Programs that use RDMA: Debian's libibverbs, our substitute, and a device of the test in place of a NIC."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
SOURCES = HERE.parents[2] / "verbs"

LOCAL = IPv4Address("10.0.1.1")
"""The address of GID 0 of the device, which is of RoCE v2; GID 1 is the same of RoCE v1."""

SANITIZERS = {"plain": (), "address": ("address", "undefined"), "thread": ("thread",)}


class ConnectedQp(NamedTuple):
    """A QP of a program.

    Attributes:
        place: by which the program calls it.
        number: QP number.
        failed: what ibv_modify_qp has returned.
        label: that the device has got.
        left: the label in the program's own struct afterwards.
    """

    place: int
    number: int
    failed: int
    label: int
    left: int


class VerbsBuild(NamedTuple):
    """Where a build is: the substitute, programs, and what stands in for hardware."""

    folder: Path
    kind: str

    @property
    def substitute(self) -> Path:
        """Return the folder of the substitute."""
        return self.folder / "substitute"


def build(folder: Path, kind: str = "plain") -> VerbsBuild:
    """Compile everything into a folder, ``kind`` of ``SANITIZERS``."""
    flags = [f"-fsanitize={each}" for each in SANITIZERS[kind]]
    if kind == "address":
        flags.append("-fno-sanitize-recover=undefined")
    folder.mkdir(parents=True, exist_ok=True)
    made = VerbsBuild(folder, kind)
    own = f"CFLAGS=-O1 -g {' '.join(flags)}"
    _run(["make", "-s", "-C", str(SOURCES), f"OUT={made.substitute}", own])
    common = ["gcc", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
    _run([*common, "-shared", "-fPIC", "-o", str(folder / "libfake-rdmav34.so"), str(HERE / "device.c"), "-libverbs"])
    (folder / "mlx5.map").write_text("MLX5_1.17 { global: mlx5dv_modify_qp_udp_sport; local: *; };\n")
    named = ["-Wl,-soname,libmlx5.so.1", f"-Wl,--version-script={folder / 'mlx5.map'}"]
    _run([*common, "-shared", "-fPIC", *named, "-o", str(folder / "libmlx5.so.1"), str(HERE / "mlx5.c")])
    program = [*common, *flags, "-rdynamic", str(HERE / "program.c"), "-ldl", "-pthread"]
    _run([*program, "-o", str(folder / "loading")])
    _run([*program, "-DLINKED", "-libverbs", "-o", str(folder / "linked")])
    _write_devices(folder / "sys")
    return made


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def _write_devices(folder: Path) -> None:
    """Write what libibverbs reads of a device in /sys: by ``SYSFS_PATH`` it looks elsewhere."""
    gid = "0000:0000:0000:0000:0000:ffff:0a00:0101"
    files = {
        "class/infiniband_verbs/abi_version": "6",
        "class/infiniband_verbs/uverbs0/ibdev": "fake0",
        "class/infiniband_verbs/uverbs0/abi_version": "1",
        "class/infiniband_verbs/uverbs0/dev": "1:3",
        "class/infiniband/fake0/node_type": "1: CA",
        "class/infiniband/fake0/node_guid": "0000:0000:0000:0001",
    }
    for n, kind in enumerate(("RoCE v2", "IB/RoCE v1")):
        files |= {
            f"class/infiniband/fake0/ports/1/gids/{n}": gid,
            f"class/infiniband/fake0/ports/1/gid_attrs/types/{n}": kind,
            f"class/infiniband/fake0/ports/1/gid_attrs/ndevs/{n}": "lo",
        }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


class VerbsProgram:
    """A running program."""

    def __init__(
        self,
        made: VerbsBuild,
        shared: Path,
        *,
        name: str = "loading",
        by: str = "path",
        moves: bool = False,
        more: Mapping[str, str] | None = None,
    ) -> None:
        """Start it.

        Args:
            made: the build.
            shared: the folder of the files that it shares with an agent.
            name: ``loading``, as NCCL does, or ``linked``.
            by: how it gets the substitute: ``path`` (LD_LIBRARY_PATH), ``preload``, or ``none``.
            moves: whether the device's library can change the ports of running QPs.
            more: of the environment.
        """
        self.log = shared / f"{name}-{os.urandom(4).hex()}.log"
        environment = os.environ | {
            "SYSFS_PATH": str(made.folder / "sys"),
            "RDMAV_DRIVERS": str(made.folder / "libfake"),
            "FAIRSPINE_VERBS_DIR": str(shared),
            "FAIRSPINE_VERBS_LOG": str(self.log),
            "ASAN_OPTIONS": "detect_leaks=0",
            "TSAN_OPTIONS": "halt_on_error=1 die_after_fork=0",
        }
        if by == "path":
            environment["LD_LIBRARY_PATH"] = str(made.substitute)
        if by == "preload":
            environment["LD_PRELOAD"] = str(made.substitute / "libibverbs.so.1")
        if moves:
            environment["TEST_MLX5"] = str(made.folder / "libmlx5.so.1")
        command = [str(made.folder / name)]
        if made.kind == "thread":
            # Its shadow memory has no room where addresses are more random than it expects.
            setarch = shutil.which("setarch")
            assert setarch
            command = [setarch, os.uname().machine, "-R", *command]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=environment | dict(more or {}),
        )
        self.device, self.library = self._answer().split()

    def ask(self, command: str) -> str:
        """Send a command, and return the line that answers it."""
        assert self._process.stdin
        self._process.stdin.write(command + "\n")
        return self._answer()

    def connect(self, to: str, label: int = 0, verb: str = "connect") -> ConnectedQp:
        """Connect a QP; ``to``: an address, and a slash and the number of another GID of the sender."""
        return ConnectedQp(*map(int, self.ask(f"{verb} {to} {label}").split()))

    def fork_and_connect(self, to: str) -> ConnectedQp:
        """Connect a QP in a child, which ends."""
        child = ConnectedQp(*map(int, self.ask(f"fork {to}").split()))
        assert self._answer() == "0"
        return child

    def moved_to(self, index: int) -> int:
        """Return the port to which a QP was moved while it was running; 0: it was not."""
        return int(self.ask(f"show {index}").split()[1])

    def limit(self, index: int) -> int:
        """Return the rate in kbit/s that the device keeps for a QP; 0: any."""
        return int(self.ask(f"show {index}").split()[2])

    @property
    def lines(self) -> list[str]:
        """Return the lines of its log, without the name of the program."""
        return [line.split(": ", 1)[1] for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def end(self) -> None:
        """End it as programs end, and expect no complaint of a sanitizer."""
        _, complaints = self._process.communicate()
        assert (self._process.returncode, complaints) == (0, "")

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline().strip()
        if not line or line.startswith("error"):
            self._process.kill()
            raise AssertionError(f"{line}\n{self._process.communicate()[1]}")
        return line
