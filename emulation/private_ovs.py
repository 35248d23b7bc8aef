"""A private Open vSwitch for the lab, whose database, daemon and sockets are in one folder.

It uses the userspace datapath (``datapath_type=netdev``), so that no kernel module is needed. Two such daemons cannot
share a network namespace, since each makes an interface ``ovs-netdev``: the lab has one to itself.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from emulation.errors import LabError
from emulation.processes import Child, listens
from emulation.wiring import Bridge, CableEnd

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
DATAPATH = "ovs-netdev"
"""The interface that every userspace datapath makes."""

LOG_TO_CONSOLE = ("-vconsole:info", "-vsyslog:off", "-vfile:off")
READY_SECONDS = 120.0
COMMAND_SECONDS = 120.0
"""Both are reached only if something is wrong, also on a machine that is busy with other work."""
RECONNECT_MS = 1000
"""How long a bridge waits at most before it tries the controller again (the default is 8 s)."""
_LONG_WAIT = re.compile(r"waiting ([2-9]|\d\d+) seconds before reconnect|continuing to retry connections .*")
_CONNECTION = re.compile(r"\|rconn\|\w+\|(\S+)<->(\S+): (.*\S)")
_STATE = re.compile(r"entering (\w+)")
LOG_CONNECTIONS = "-vrconn:console:dbg"
"""Log option: connection states are debug messages, and only these report a reconnection at the shortest interval."""

Spawn = Callable[[str, Sequence[str]], Child]


class PrivateOvs:
    """A running ovsdb-server and ovs-vswitchd, and the commands that speak to them.

    ``folder`` holds everything and must be short: a Unix socket's path has at most 107 characters.
    """

    def __init__(self, folder: Path, spawn: Spawn) -> None:
        """Prepare the use of ``folder``; ``spawn`` starts child processes."""
        self.folder = folder
        self.database = f"unix:{folder}/db.sock"
        self._spawn = spawn
        self._daemons: list[Child] = []
        self._targets: dict[str, tuple[str, str]] = {}
        self._read = 0
        self._said: dict[str, str] = {}
        self._state: dict[str, str] = {}

    @staticmethod
    def environment(folder: Path) -> dict[str, str]:
        """Return the environment variables that make Open vSwitch's programs use this folder, not the system's."""
        return {name: str(folder) for name in ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")}

    def start(self) -> None:
        """Start both daemons and wait until they answer.

        Raises:
            LabError: they do not; with the end of their log.
        """
        file = self.folder / "conf.db"
        self._run(["ovsdb-tool", "create", str(file), SCHEMA])
        server = self._spawn("ovsdb-server", ["ovsdb-server", str(file), f"--remote=p{self.database}", *LOG_TO_CONSOLE])
        self._daemons.append(server)
        accepts = partial(listens, self.folder / "db.sock")
        server.wait_until(accepts, "the switches' database listens", READY_SECONDS)
        self.vsctl("--no-wait", "init")
        self._start_daemon()
        self.daemon.wait_until(self._daemon_answers, "ovs-vswitchd has read its database", READY_SECONDS)

    def restart_daemon(self) -> None:
        """Kill ovs-vswitchd and start it again: it makes its bridges anew, from the database, without rules."""
        killed = self._daemons.pop()
        killed.kill()
        self._read = killed.log.stat().st_size
        self._said.clear()
        self._state.clear()
        self._start_daemon()
        # Any change will do: ovs-vsctl waits until the daemon has brought it about, and all older ones with it.
        self.vsctl("set", "open_vswitch", ".", f"external-ids:daemon={self.daemon.pid}")

    def _start_daemon(self) -> None:
        argv = [
            "ovs-vswitchd",
            self.database,
            "--disable-system",
            "--disable-system-route",
            *LOG_TO_CONSOLE,
            LOG_CONNECTIONS,
        ]
        daemon = self._spawn("ovs-vswitchd", argv)
        # Switches of hardware do not wait for the processor of a host: a busy machine would make them drop packets.
        daemon.run_first()
        self._daemons.append(daemon)

    def stop(self) -> None:
        """End both daemons, the switches first."""
        while self._daemons:
            self._daemons.pop().stop()

    def owns(self, child: Child) -> bool:
        """Return whether this process is one of the two daemons."""
        return child in self._daemons

    @property
    def daemon(self) -> Child:
        """ovs-vswitchd: all bridges of the lab live in it."""
        return self._daemons[-1]

    def add_bridges(self, bridges: Iterable[tuple[Bridge, Sequence[CableEnd]]], controller: str | None = None) -> None:
        """Make bridges with their ports in one transaction, fail-mode secure, OpenFlow 1.3.

        Without a controller they also speak OpenFlow 1.4, which has bundles.

        Raises:
            LabError: a port cannot be opened or does not get its number.
        """
        target = None if controller is None else self._allowed(controller)
        protocols = "OpenFlow13" if target else "OpenFlow13,OpenFlow14"
        args: list[str] = []
        numbers: dict[str, int] = {}
        for switch, ends in bridges:
            name = switch.bridge
            args += ["--", "add-br", name, "--", "set", "bridge", name, "datapath_type=netdev", "fail_mode=secure"]
            args += [f"protocols={protocols}", f"other-config:datapath-id={switch.dpid:016x}"]
            args += ["other-config:disable-in-band=true", f"other-config:dp-desc={switch.name}"]
            if target is not None:
                args += _connection(name, target)
                self._targets[name] = (switch.name, target)
            for end in ends:
                numbers[end.interface] = end.port
                args += ["--", "add-port", name, end.interface]
                args += ["--", "set", "interface", end.interface, f"ofport_request={end.port}"]
        self.vsctl(*args)
        for row in self.table("interface", "name", "ofport", "error"):
            wanted = numbers.get(row["name"])
            if wanted is not None and row["ofport"] != wanted:
                why = row["error"] or f"it has number {row['ofport']}, not {wanted}"
                raise LabError(f"port {row['name']} was not created correctly: {why}{self.daemon.tail()}")

    def _allowed(self, controller: str) -> str:
        """Return the target in a form that Open vSwitch accepts: it connects only to Unix sockets in its own folder."""
        path = controller.removeprefix("unix:")
        if path == controller:
            return controller
        link = self.folder / "controller"
        if not link.is_symlink():
            link.symlink_to(path)
        return f"unix:{link}"

    def sample(self, switches: Iterable[Bridge], target: tuple[str, int], sampling: int) -> None:
        """Have switches send sFlow of one of ``sampling`` packets to a UDP address in the lab's namespace."""
        create = ["--id=@sampled", "create", "sflow", "agent=lo", f'target="{target[0]}:{target[1]}"']
        create += ["header=128", f"sampling={sampling}", "polling=0"]
        uses = [part for switch in switches for part in ("--", "set", "bridge", switch.bridge, "sflow=@sampled")]
        self.vsctl("--", *create, *uses)

    def delete_bridge(self, switch: Bridge) -> None:
        """Delete the bridge of a switch and its connection state."""
        self.vsctl("del-br", switch.bridge)
        self._last_words()
        del self._targets[switch.bridge]
        self._forget(switch.bridge)

    def connected(self) -> dict[str, bool]:
        """Return, by name of the switch in the fabric, whether its OpenFlow connection is established.

        The result is from the daemon's log, since ``is_connected`` in the database is up to five seconds old.
        """
        self._last_words()
        return {switch: self._state.get(bridge) in ("ACTIVE", "IDLE") for bridge, (switch, _) in self._targets.items()}

    def try_again(self) -> None:
        """Bridges that have not connected for some time and would wait for seconds now try at once.

        ``max_backoff`` counts only for a connection that has stood before: until then Open vSwitch 3.1 waits for 1, 2,
        4, and then always 8 seconds.
        """
        said = self._last_words()
        args: list[str] = []
        for bridge, (switch, target) in self._targets.items():
            if _LONG_WAIT.fullmatch(said.get(bridge, "")):
                # The same place spelled in another way is a new connection. Taking the controller away and giving it
                # back would be one as well, and would flush all rules.
                self._targets[bridge] = (switch, _respelled(target))
                # The logged state is of the old spelling: without this the next call would respell it again.
                self._forget(bridge)
                args += ["--", "set", "controller", bridge, f'target="{self._targets[bridge][1]}"']
        if args:
            self.vsctl(*args)

    def point(self, switch: Bridge, controller: tuple[str, int]) -> None:
        """Have a switch look for its controller at another TCP address. It keeps its rules."""
        target = f"tcp:{controller[0]}:{controller[1]}"
        name = self._targets[switch.bridge][0]
        self._last_words()
        self._targets[switch.bridge] = (name, target)
        self._forget(switch.bridge)
        self.vsctl("set", "controller", switch.bridge, f'target="{target}"')

    def _forget(self, bridge: str) -> None:
        self._said.pop(bridge, None)
        self._state.pop(bridge, None)

    def _last_words(self) -> dict[str, str]:
        """Return the last logged state of each bridge's connection to the controller."""
        with self.daemon.log.open("rb") as log:
            log.seek(self._read)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                line_match = _CONNECTION.search(line.decode(errors="replace"))
                # ovs-ofctl's connections are logged too.
                if line_match and self._targets.get(line_match[1], ("", ""))[1] == line_match[2]:
                    state = _STATE.fullmatch(line_match[3])
                    if state:
                        self._state[line_match[1]] = state[1]
                    else:
                        self._said[line_match[1]] = line_match[3]
        return self._said

    def table(self, name: str, *columns: str) -> list[dict[str, Any]]:
        """Rows of a table of the database; sets and maps as Python's, an absent value as ``None``."""
        answer = json.loads(
            self.vsctl("--format=json", f"--columns={','.join(columns)}", "list", name) or '{"data": []}'
        )
        return [dict(zip(answer["headings"], map(_plain, row), strict=True)) for row in answer["data"]]

    def vsctl(self, *args: str) -> str:
        """Run ovs-vsctl, wait until the switches have applied the change, and return the output."""
        return self._run(["ovs-vsctl", f"--db={self.database}", f"--timeout={COMMAND_SECONDS:.0f}", *args])

    def ofctl(self, command: str, switch: Bridge, *args: str) -> str:
        """ovs-ofctl, over the bridge's own management socket: the controller's connection is not involved."""
        socket = f"unix:{self.folder / (switch.bridge + '.mgmt')}"
        return self._run(["ovs-ofctl", "-O", "OpenFlow13", command, socket, *args])

    def appctl(self, *args: str) -> str:
        """ovs-appctl, over the daemon's management socket."""
        return self._run(["ovs-appctl", "-t", str(self.folder / f"ovs-vswitchd.{self.daemon.pid}.ctl"), *args])

    def _daemon_answers(self) -> bool:
        rows = self.table("open_vswitch", "cur_cfg", "next_cfg")
        if rows and rows[0]["cur_cfg"] == rows[0]["next_cfg"] and rows[0]["cur_cfg"] > 0:
            return True
        self._run(["ovs-vsctl", f"--db={self.database}", "--no-wait", "set", "open_vswitch", ".", "next_cfg=1"])
        return False

    def _run(self, argv: Sequence[str]) -> str:
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                timeout=COMMAND_SECONDS + 5,
                env=os.environ | self.environment(self.folder),
            )
        except FileNotFoundError:
            raise LabError(f"{argv[0]} is not installed (Debian: apt-get install openvswitch-switch)") from None
        except subprocess.TimeoutExpired:
            raise LabError(f"no answer within {COMMAND_SECONDS + 5:.0f} s: {' '.join(argv)[:200]}") from None
        if done.returncode:
            raise LabError(f"{argv[0]}: {done.stderr.strip() or f'exit status {done.returncode}'}")
        return done.stdout


def _plain(value: Any) -> Any:
    """Convert a value in ovsdb's JSON notation (RFC 7047, section 5.1) to Python."""
    match value:
        case ["set", []]:
            return None
        case ["set", list(members)]:
            return [_plain(member) for member in members]
        case ["map", list(pairs)]:
            return {key: _plain(member) for key, member in pairs}
        case ["uuid", str(text)]:
            return text
    return value


def _respelled(target: str) -> str:
    """Return the other spelling of the same target: ``tcp:HOST:06653`` or ``unix:FOLDER/./NAME``, and back."""
    if target.startswith("unix:"):
        folder, _, name = target.rpartition("/")
        return f"{folder.removesuffix('/.')}/{name}" if folder.endswith("/.") else f"{folder}/./{name}"
    host, _, port = target.rpartition(":")
    return f"{host}:{port.removeprefix('0')}" if port.startswith("0") else f"{host}:0{port}"


def _connection(bridge: str, target: str) -> list[str]:
    """Arguments of ovs-vsctl that connect a bridge to a controller."""
    row = f"@{bridge}"
    create = [f"--id={row}", "create", "controller", f'target="{target}"', f"max_backoff={RECONNECT_MS}"]
    return ["--", *create, "--", "set", "bridge", bridge, f"controller={row}"]
