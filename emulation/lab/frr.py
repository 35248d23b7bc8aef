"""FRR's daemons of a router of the lab: zebra, bgpd and staticd in its namespace, as children of the lab.

No service manager is needed. All that they write is in a folder of the router in that of the lab. They run as the user
``frr``, as the package has them do. Folders of labs are closed to other users, so the daemons get to theirs by their
working directory.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from emulation.errors import LabError
from emulation.processes import Child, listens

PROGRAMS = Path("/usr/lib/frr")
"""Where Debian's package has the daemons."""

USER = "frr"

READY_SECONDS = 60.0
"""Reached only if something is wrong, also on a machine that is busy with other work."""

STOP_SECONDS = 10.0

ZEBRA = "no zebra nexthop kernel enable\n"
"""FRR 8.4 does not see that the kernel removes next hops of an interface that goes down, and uses them again when it is
up: routes over several cables then lack this one for ever. So each route has its next hops in itself."""

HERE = "/proc/self/cwd"
"""The working directory, whoever may enter the folders above it."""

Spawn = Callable[[str, list[str]], Child]


def check_installed() -> None:
    """See whether FRR is there.

    Raises:
        LabError: it is not.
    """
    if not (PROGRAMS / "bgpd").is_file():
        raise LabError("routing by BGP needs one more Debian package: apt-get install frr")


class FrrRouter:
    """FRR of one router.

    Args:
        name: of the router.
        folder: for its sockets and files; it is made.
        configuration: of bgpd, as text.
        spawn: starts a program in the namespace of the router.
        routes: of staticd, which runs if there are any.
    """

    def __init__(self, name: str, folder: Path, configuration: str, spawn: Spawn, routes: Sequence[str] = ()) -> None:
        """Write the files."""
        self._name, self._folder, self._spawn, self._is_static = name, folder, spawn, bool(routes)
        self._bgpd: Child | None = None
        folder.mkdir(parents=True, mode=0o700)
        for daemon, text in (("zebra", ZEBRA), ("staticd", "\n".join([*routes, ""])), ("bgpd", configuration)):
            (folder / f"{daemon}.conf").write_text(f"hostname {name}\n{text}")
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, USER, USER)

    def start(self) -> None:
        """Start zebra, which reads and writes the routes of the kernel, and then the others.

        Raises:
            LabError: one has ended, or does not listen in time; with the end of its log.
        """
        zebra = self._start("zebra")
        zebra.wait_until(partial(listens, self._socket), f"zebra of {self._name} listens", READY_SECONDS)
        if self._is_static:
            self._start("staticd")
        self.start_bgp()

    def start_bgp(self) -> None:
        """Start bgpd.

        Raises:
            LabError: it has ended, or does not answer in time; with the end of its log.
        """
        self._bgpd = self._start("bgpd")
        accepts = partial(listens, self._folder / "bgpd.vty")
        self._bgpd.wait_until(accepts, f"bgpd of {self._name} listens", READY_SECONDS)

    def stop_bgp(self, *, kill: bool = False) -> None:
        """End bgpd: it tells its neighbours, unless it is killed. Zebra removes its routes."""
        assert self._bgpd is not None
        if kill:
            self._bgpd.kill()
        else:
            self._bgpd.stop(STOP_SECONDS)
        (self._folder / "bgpd.vty").unlink(missing_ok=True)

    def show(self, command: str) -> Any:
        """Return what bgpd answers to a command that ends with ``json``.

        Raises:
            LabError: it does not answer.
        """
        argv = ["vtysh", "--vty_socket", str(self._folder), "-d", "bgpd", "-c", command]
        done = subprocess.run(argv, capture_output=True, text=True)
        try:
            return json.loads(done.stdout[done.stdout.index("{") :])
        except ValueError:
            raise LabError(f"bgpd of {self._name}: {command}: {done.stderr.strip() or done.stdout.strip()}") from None

    def configure(self, lines: Iterable[str]) -> None:
        """Change what bgpd does, by lines of its configuration.

        Raises:
            LabError: it has refused one.
        """
        argv = ["vtysh", "--vty_socket", str(self._folder), "-d", "bgpd"]
        text = "\n".join(["configure terminal", *lines, "end", "exit", ""])
        done = subprocess.run(argv, input=text, capture_output=True, text=True)
        refused = [line for line in done.stdout.splitlines() if line.startswith("%")]
        if done.returncode or refused:
            raise LabError(f"bgpd of {self._name}: {next(iter(refused), done.stderr.strip())}")

    def established(self) -> set[str]:
        """Return the neighbours with a session: interfaces, and addresses of those who only hear routes."""
        peers: dict[str, Any] = self.show("show bgp ipv6 unicast summary json").get("peers", {})
        return {name for name, peer in peers.items() if peer["state"] == "Established"}

    @property
    def _socket(self) -> Path:
        return self._folder / "zserv.api"

    def _start(self, daemon: str) -> Child:
        argv = ["env", "-C", str(self._folder), str(PROGRAMS / daemon), "-f", f"{HERE}/{daemon}.conf"]
        argv += ["-i", f"{HERE}/{daemon}.pid", "-z", f"{HERE}/{self._socket.name}", "--vty_socket", HERE]
        argv += ["-P", "0", "-u", USER, "-g", USER, "--log", "stdout"]
        child = self._spawn(f"{daemon}-{self._name}", argv)
        child.run_first()
        return child
