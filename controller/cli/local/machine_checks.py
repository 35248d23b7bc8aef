"""The checks of ``fairspine doctor``: pure functions from what was read of the machine to a ``MachineCheck``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from controller.model.errors import InputError


class CheckState(StrEnum):
    """The result of a check. With a warning the controller works, but something else, such as the lab, does not."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class MachineCheck:
    """``check``: its name; ``found``: what was found; ``mend``: what to do, empty if nothing is to be done."""

    check: str
    state: CheckState
    found: str
    mend: str = ""


def of_input(check: str, read: Callable[[], str], mend: str = "") -> MachineCheck:
    """Return a problem if ``read`` raises ``InputError``, else ok with the text that it returns."""
    try:
        return MachineCheck(check, CheckState.OK, read())
    except InputError as error:
        return MachineCheck(check, CheckState.PROBLEM, str(error), mend)


def python(version: str, supported: str) -> MachineCheck:
    """Judge the version of Python; ``supported`` is a version specifier (PEP 440)."""
    if SpecifierSet(supported).contains(version, prereleases=True):
        return MachineCheck("python", CheckState.OK, version)
    return MachineCheck("python", CheckState.PROBLEM, f"{version}, not {supported}", "install it in another Python")


def packages(
    requirements: Sequence[str], extra: str, installed: Callable[[str], str | None], *, needed: bool
) -> MachineCheck:
    """Judge the packages of an extra (empty: those that every command needs).

    Args:
        requirements: those of the distribution (PEP 508).
        extra: name of the extra.
        installed: returns the installed version of a package, or ``None``.
        needed: whether it is a problem if one is missing; else a warning.
    """
    check = f"packages of {extra}" if extra else "packages"
    wanted = [one for one in map(Requirement, requirements) if _belongs(one, extra)]
    wrong = [
        f"{one.name} {version or 'is missing'}{f' is not {one.specifier}' if version else ''}"
        for one in wanted
        if (version := installed(one.name)) is None or not one.specifier.contains(version, prereleases=True)
    ]
    if not wrong:
        return MachineCheck(check, CheckState.OK, f"{len(wanted)} installed")
    name = f"fairspine[{extra}]" if extra else "fairspine"
    state = CheckState.PROBLEM if needed else CheckState.WARNING
    return MachineCheck(check, state, ", ".join(wrong), f"pip install '{name}' (make setup does)")


def _belongs(requirement: Requirement, extra: str) -> bool:
    marker = requirement.marker
    if marker is None:
        return not extra
    return marker.evaluate({"extra": extra}) and (not extra or not marker.evaluate({"extra": ""}))


def compiled_kernels(folder: str | None) -> MachineCheck:
    """Judge the folder in which compiled numerical kernels are kept; ``None``: none can be written."""
    check = "compiled kernels"
    if folder is not None:
        return MachineCheck(check, CheckState.OK, f"kept in {folder}")
    mend = "set NUMBA_CACHE_DIR to a folder that this user can write, and run 'fairspine warm-up'"
    return MachineCheck(check, CheckState.WARNING, "no folder can be written: compiled in each run, for minutes", mend)


def kernel(system: str, is_root: bool, failure: str) -> MachineCheck:
    """Judge whether the lab can make network namespaces with limited rates.

    Args:
        system: name of the kernel.
        is_root: whether the caller may try.
        failure: what the trial wrote; empty if it succeeded.
    """
    if system != "Linux":
        return MachineCheck("kernel", CheckState.PROBLEM, f"{system} is not supported", "use Linux")
    if not is_root:
        return MachineCheck("kernel", CheckState.OK, "Linux; network namespaces and tc were not tried (only root can)")
    if failure:
        mend = "only the lab needs this: use a kernel with network namespaces and sch_htb, not a restricted container"
        return MachineCheck("kernel", CheckState.WARNING, f"no network namespace with tc: {failure}", mend)
    return MachineCheck("kernel", CheckState.OK, "Linux, with network namespaces and tc")


def root(is_root: bool) -> MachineCheck:
    """Judge the user."""
    if is_root:
        return MachineCheck("user", CheckState.OK, "root")
    return MachineCheck("user", CheckState.WARNING, "not root", "only the lab needs root: use sudo")


def programs(needed: Mapping[str, str], is_there: Callable[[str], bool]) -> MachineCheck:
    """Judge the programs that the lab runs; ``needed`` has the Debian package of each."""
    missing = [program for program in needed if not is_there(program)]
    if not missing:
        return MachineCheck("programs", CheckState.OK, f"{len(needed)} found")
    names = " ".join(sorted({needed[program] for program in missing}))
    mend = f"only the lab needs them: apt-get install {names}"
    return MachineCheck("programs", CheckState.WARNING, f"missing: {', '.join(missing)}", mend)


def open_vswitch(printed: str | None, daemon_runs: bool) -> MachineCheck:
    """Judge Open vSwitch on this machine.

    Args:
        printed: what ``ovs-vswitchd --version`` prints; ``None`` if there is no such program.
        daemon_runs: whether the machine's own daemon listens.
    """
    if printed is None:
        mend = "only the lab needs it: apt-get install openvswitch-switch"
        return MachineCheck("open vswitch", CheckState.WARNING, "not installed", mend)
    version = re.search(r"\d+(\.\d+)+", printed)
    if version is None:
        mend = "only the lab needs it: apt-get install --reinstall openvswitch-switch"
        return MachineCheck("open vswitch", CheckState.WARNING, "ovs-vswitchd does not run", mend)
    daemon = "runs" if daemon_runs else "does not run"
    versions = f"{version[0]}; the machine's daemon {daemon} (the lab starts its own)"
    return MachineCheck("open vswitch", CheckState.OK, versions)


def port(what: str, address: str, busy: InputError | None, controller_runs: bool) -> MachineCheck:
    """Judge a port on which the controller listens; ``busy`` says why it cannot."""
    check = f"{what} port"
    if busy is None:
        return MachineCheck(check, CheckState.OK, f"{address} is free")
    if controller_runs and "in use" in busy.reason:
        return MachineCheck(check, CheckState.OK, f"{address} is in use; a controller is running")
    return MachineCheck(check, CheckState.PROBLEM, str(busy), f"end the other program, or set {busy.field}")


def schema(shown: str, present: str | None, known: Sequence[str]) -> MachineCheck:
    """Judge the step of a store's tables; ``present``: ``None`` if there are none; ``known``: newest first."""
    if present is None:
        return MachineCheck("store", CheckState.OK, f"{shown}: new, the controller makes it")
    if present not in known:
        mend = "use the fairspine that wrote it, or another store"
        return MachineCheck("store", CheckState.PROBLEM, f"{shown} is of a newer fairspine (step {present})", mend)
    if present != known[0]:
        step = f"{shown}: step {present}; the controller upgrades it to {known[0]}"
        return MachineCheck("store", CheckState.OK, step)
    return MachineCheck("store", CheckState.OK, f"{shown}: step {present}, the newest")


def controller(url: str, health: Mapping[str, Any] | None, failure: str, *, asked_for: bool) -> MachineCheck:
    """Judge a running controller.

    Args:
        url: its URL.
        health: its answer, if there is one.
        failure: why there is none.
        asked_for: whether there has to be a controller.
    """
    if health is None:
        state = CheckState.PROBLEM if asked_for else CheckState.OK
        status = failure if asked_for else f"none is running at {url}"
        return MachineCheck("controller", state, status, "start it (docs/how-to/service.md)" if asked_for else "")
    if health["status"] == "ok":
        return MachineCheck("controller", CheckState.OK, f"{url}: its health is ok")
    reasons = "; ".join(map(str, health["reasons"])) or "no switch has confirmed the newest plan yet"
    return MachineCheck(
        "controller", CheckState.PROBLEM, f"{url}: {health['status']}: {reasons}", "see 'fairspine status'"
    )
