"""``python -m emulation.lab``: a fabric to play with, until Ctrl-C; and commands on its hosts from other terminals.

python -m emulation.lab --fabric examples/clos-4x4x4.yaml
python -m emulation.lab --fabric examples/routers-4x4x4.yaml --agents
python -m emulation.lab --on h1 ping -c 3 10.0.2.1
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.fabric_file import load_fabric
from controller.model.packets.port_numbers import MAX_PORT
from emulation import isolate, needs
from emulation.errors import LabError
from emulation.interrupts import ending_by_exception
from emulation.lab import DEFAULT_CONTROLLER, Lab
from emulation.lab.agents import AT_HOST, LabAgents
from emulation.lab.routers import RouterLab
from emulation.processes import labelled
from emulation.runfile import run_folder

DESCRIPTION = (
    "Bring up a fabric of Mininet hosts and Open vSwitch; one of routers on Linux routers, with agents on its hosts."
)
PROGRAM = "python -m emulation.lab"
NOTICE_SECONDS = 0.5


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 after Ctrl-C, 2 for invalid input, 1 if the lab cannot start (with one error line)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = _parser().parse_args(arguments)
    try:
        if options.on:
            _on_host(options.lab, options.on[0], options.on[1:])
        if options.fabric is None:
            raise InputError("is needed (a file such as examples/clos-4x4x4.yaml)", field="--fabric")
        fabric = load_fabric(options.fabric)
        if options.agents and not fabric.routers:
            raise InputError(
                "has OpenFlow switches: this command runs agents on fabrics of routers alone", field="--agents"
            )
        usual = AT_HOST if fabric.routers else DEFAULT_CONTROLLER
        host, port = usual if options.controller is None else _address(options.controller)
        if isolate.isolated():
            relay = isolate.relay_path()
            target = (host, port) if relay is None else f"unix:{relay}"
            lab = _lab(fabric, target, options.out, options.mbps_per_gbps)
            agents = None
            if options.agents and isinstance(lab, RouterLab):
                agents = LabAgents(lab, controller=relay or (host, port))
            return _serve(lab, options.fabric, agents)
        # Invalid rates and ports are reported before anything is created.
        _lab(fabric, DEFAULT_CONTROLLER, options.out, options.mbps_per_gbps)
        lacking = needs.missing()
        if lacking:
            raise LabError(lacking)
        return isolate.run([sys.executable, "-m", "emulation.lab", *arguments], relay_to=(host, port))
    except InputError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 2
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=DESCRIPTION)
    parser.add_argument("--fabric", metavar="FILE", help="the fabric, as for fairspine and ryu-manager")
    parser.add_argument(
        "--controller",
        metavar="HOST:PORT",
        help=f"where the controller listens for switches (default: {_text(DEFAULT_CONTROLLER)}), or, with --agents, "
        f"for HTTP (default: {_text(AT_HOST)})",
    )
    parser.add_argument(
        "--agents", action="store_true", help="on a fabric of routers: run fairspine agent on every host"
    )
    parser.add_argument(
        "--mbps-per-gbps", type=float, metavar="X", help="shape links: X Mbit/s for each Gbit/s of the fabric"
    )
    parser.add_argument("--out", metavar="DIR", default="out", help="logs go to DIR/logs (default: %(default)s)")
    parser.add_argument("--lab", metavar="NAME", help="before --on: the lab, if several run that have this host")
    parser.add_argument(
        "--on", nargs=argparse.REMAINDER, metavar="HOST COMMAND", help="run a command on a host of the running lab"
    )
    return parser


def _lab(fabric: Fabric, controller: tuple[str, int] | str, out: str, mbps_per_gbps: float | None) -> Lab | RouterLab:
    if fabric.routers:
        return RouterLab(fabric, out=out, mbps_per_gbps=mbps_per_gbps)
    return Lab(fabric, controller=controller, out=out, mbps_per_gbps=mbps_per_gbps)


def _serve(lab: Lab | RouterLab, fabric: str, agents: LabAgents | None) -> int:
    """Up, until a signal: the lab takes itself down."""
    try:
        with ending_by_exception(), lab, ExitStack() as stack:
            if agents is not None:
                stack.enter_context(agents)
            kind = "routers" if isinstance(lab, RouterLab) else "switches"
            print(
                f"{len(lab.fabric.switches)} {kind} and {len(lab.wiring.hosts)} hosts are up, as described in "
                f"{fabric}.\n"
                f"logs:    {lab.out / 'logs'}\n"
                f"hosts:   {PROGRAM} --lab {lab.name} --on {lab.wiring.hosts[0].namespace} "
                f"ping -c 3 {lab.wiring.hosts[-1].ip}\n"
                f"{_tables(lab)}\n"
                f"Ctrl-C ends it.",
                flush=True,
            )
            while True:
                # Not signal.pause(): a signal just before it would be noticed only at the next one.
                time.sleep(NOTICE_SECONDS)
                if isinstance(lab, Lab):
                    lab.ovs.try_again()
                if agents is not None:
                    agents.check()
    except (KeyboardInterrupt, SystemExit):
        return 0


def _tables(lab: Lab | RouterLab) -> str:
    """Return how to see the rules of the first switch, or the routes of the first router."""
    if isinstance(lab, RouterLab):
        return f"routes:  {PROGRAM} --lab {lab.name} --on {lab.wiring.routers[0]} ip -6 route"
    bridge = lab.wiring.switches[0].bridge
    return f"rules:   ovs-ofctl -O OpenFlow13 dump-flows unix:{lab.ovs.folder / bridge}.mgmt"


def _text(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) <= MAX_PORT:
        raise InputError("HOST:PORT is needed", field="--controller", value=text)
    return host.strip("[]"), int(port)


def _on_host(lab: str | None, host: str, argv: Sequence[str]) -> None:
    """Replace this process by a command on a host of a lab that runs on this machine; ``lab``: its name, or any.

    Raises:
        InputError: there is no command or no such host, or several labs have one and no lab is named.
    """
    if not argv:
        raise InputError("a host and a command are needed", field="--on", value=host)
    shells = {name: shell for name, shell in _shells(host).items() if lab in (None, name)}
    if not shells:
        reason = "no running lab has a host of this name" if lab is None else f"lab {lab} has no host of this name"
        raise InputError(reason, field="--on", value=host)
    if len(shells) > 1:
        names = ", ".join(sorted(shells))
        raise InputError(
            f"several labs have a host of this name; choose one by --lab: {names}", field="--on", value=host
        )
    (shell,) = shells.values()
    command = ["nsenter", "--net", f"--target={shell}", "--", *argv]
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise LabError(f"{command[0]}: {error.strerror}") from None


def _shells(host: str) -> dict[str, int]:
    """Process ids, as seen from here, of the shells that stand for a host of this name, by the names of their labs."""
    shells = {}
    # A lab that the command has isolated keeps its folder inside that of its isolation.
    for record in run_folder().glob("**/run.json"):
        for process in labelled(record.parent.name):
            try:
                command = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            # Mininet starts the shell of each node so, to make it easy to find.
            if f"mininet:{host}".encode() in command:
                shells[record.parent.name] = process.pid
    return shells


if __name__ == "__main__":
    sys.exit(main())
