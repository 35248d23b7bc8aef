"""Importer ``jax-trace``: profiles of JAX (``jax.profiler.start_trace``), ``*.xplane.pb`` of a process each.

A profile (XSpace, tsl/profiler/protobuf/xplane.proto of OpenXLA) has the compiled programs, with the shapes and the
groups of their collectives, and an event for each time that an instruction ran. All processes run the same programs, so
one profile is enough; of several the one in which a collective ran most often counts. Rank i is device i of the
programs. The ``*.trace.json.gz`` beside it has the events, and no sizes.

On CPUs, Gloo carries out collectives: its rings send from rank r to rank r - 1, so ranks are in falling order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from controller.model.errors import InputError
from controller.model.job import CollectiveCall, Job
from controller.model.texts.byte_sizes import MAX_BYTES
from controller.workload.importers.base import Imported, ImportRequest, Source, provisional_hosts
from controller.workload.importers.documents import content
from controller.workload.importers.fields import job_name
from controller.workload.importers.head import Head
from controller.workload.importers.jax.hlo import HloCollective, HloProgram, program_of
from controller.workload.importers.jax.wire import Field, WireError, fields
from controller.workload.importers.notes import Notes

TEXT = False
MAX_PROFILE = 1 << 30
"""Bytes of one profile."""

_METADATA = "/host:metadata"
_DEVICE = "/device:"
_HLO_OP, _HLO_MODULE, _STEP = "hlo_op", "hlo_module", "step_num"

Ran = Counter[tuple[str, str]]
"""How often an instruction of a program ran, by the names of both."""


@dataclass
class _Profile:
    programs: list[HloProgram] = field(default_factory=list)
    ran: Ran = field(default_factory=Counter)
    steps: set[int] = field(default_factory=set)
    has_devices: bool = False


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    return "a profile of JAX (XSpace), of one process" if _METADATA.encode() in head.data and not head.is_text else ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a job from profiles.

    Raises:
        InputError: a file is no profile, no collective ran, or one has groups that the program does not.
    """
    if not sources:
        raise InputError("no file is given")
    profiles = [_profile(source) for source in sources]
    notes = Notes()
    ran: Ran = Counter()
    for profile in profiles:
        ran |= profile.ran
    programs = {program.name: program for profile in profiles for program in profile.programs}
    for profile in profiles:
        for program in profile.programs:
            if programs[program.name].collectives != program.collectives:
                notes.warn(f"several programs are named {program.name}, and the last one counts")
    n = max((program.devices for program in programs.values()), default=1)
    on_cpu = not any(profile.has_devices for profile in profiles)
    calls: list[CollectiveCall] = []
    for program in programs.values():
        for collective in program.collectives:
            times = ran[program.name, collective.name]
            if not times:
                notes.add("collectives that did not run", f"{program.name}: {collective.name} did not run")
                continue
            try:
                calls += _calls(program, collective, times, request.iterations, falling=on_cpu)
            except WireError as error:
                raise _error(sources[0], f"{program.name}: {collective.name}: {error}") from None
    if not calls:
        raise _error(sources[0], "no collective between devices ran")
    steps = set[int]().union(*(profile.steps for profile in profiles))
    if len(steps) > 1 and request.iterations == 1:
        notes.once(f"the profile covers {len(steps)} steps (step_num): --iterations {len(steps)} makes a job of one")
    if on_cpu:
        notes.once("Gloo's rings send from rank r to rank r - 1: ranks of collectives are in falling order")
    job = Job(request.name or job_name(sources[0], "jax"), hosts=provisional_hosts(n), collectives=tuple(calls))
    groups = len({call.ranks for call in calls})
    return Imported(job, False, n, groups, len(calls), notes.sentences(), warnings=notes.warnings())


def _calls(
    program: HloProgram, collective: HloCollective, times: int, iterations: int, *, falling: bool
) -> Iterable[CollectiveCall]:
    """Yield the calls of a collective, one for each group or pair of ranks."""
    name = f"{program.name}.{collective.name}"
    if collective.op == "send_recv":
        size = _rounded_up((collective.parts or [0])[0] * times, iterations)
        ends = [pair for pair in collective.pairs if pair[0] != pair[1]]
        groups = [list(pair) for pair in ends]
    else:
        groups = collective.groups or [list(range(program.devices))]
        parts = collective.parts
        if collective.is_start and collective.op == "all_gather":
            parts = parts[len(parts) // 2 :]
        size = sum(parts) * (len(groups[0]) if collective.op == "reduce_scatter" else 1)
        size = _rounded_up(size * times, iterations)
    if size > MAX_BYTES or any(rank >= program.devices for group in groups for rank in group):
        raise WireError(f"{size} bytes of ranks that are not those of the program")
    several = [group for group in groups if len(group) > 1]
    for k, group in enumerate(several):
        ranks = tuple(reversed(group)) if falling and collective.op != "send_recv" else tuple(group)
        own = f"{name}-{k}" if len(several) > 1 else name
        yield CollectiveCall(_plain(own), collective.op, ranks, size)


def _rounded_up(size: int, parts: int) -> int:
    return -(-size // parts)


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name)[-63:].lstrip("-._")


def _profile(source: Source) -> _Profile:
    profile = _Profile()
    try:
        for each in fields(content(source, MAX_PROFILE)):
            if each.tag == 1:
                _plane(each.data, profile)
    except WireError as error:
        raise _error(source, f"is no profile of JAX (.xplane.pb): {error}") from None
    if not profile.programs:
        raise _error(source, "has no compiled program: the .xplane.pb of jax.profiler has, its .trace.json.gz has not")
    return profile


def _plane(data: bytes, profile: _Profile) -> None:
    rows = list(fields(data))
    name = next((each.data.decode("utf-8", "replace") for each in rows if each.tag == 2), "")
    profile.has_devices |= name.startswith(_DEVICE)
    names = dict(_named(each.data) for each in rows if each.tag == 5)
    if name == _METADATA:
        for each in rows:
            if each.tag == 4:
                profile.programs += _programs(each.data)
        return
    ran: dict[str, Ran] = {}
    for line in (each.data for each in rows if each.tag == 3):
        for event in (each.data for each in fields(line) if each.tag == 4):
            stats = dict(_stat(each, names) for each in fields(event) if each.tag == 4)
            if _HLO_OP in stats:
                device = str(stats.get("device_ordinal", ""))
                key = str(stats.get(_HLO_MODULE, "")), str(stats[_HLO_OP])
                times = next((each.number for each in fields(event) if each.tag == 5), 1)
                ran.setdefault(device, Counter())[key] += max(times, 1)
            elif _STEP in stats:
                profile.steps.add(int(str(stats[_STEP]) or 0))
    for of_device in ran.values():
        profile.ran |= of_device


def _named(entry: bytes) -> tuple[int, str]:
    """Return number and name of an entry of a map of XStatMetadata."""
    value = next((each.data for each in fields(entry) if each.tag == 2), b"")
    has = {each.tag: each for each in fields(value)}
    number = has[1].number if 1 in has else 0
    return number, has[2].data.decode("utf-8", "replace") if 2 in has else ""


def _stat(stat: Field, names: dict[int, str]) -> tuple[str, str | int]:
    has = {each.tag: each for each in fields(stat.data)}
    name = names.get(has[1].number if 1 in has else 0, "")
    if 5 in has:
        return name, has[5].data.decode("utf-8", "replace")
    if 7 in has:
        return name, names.get(has[7].number, "")
    return name, next((has[tag].number for tag in (3, 4) if tag in has), 0)


def _programs(entry: bytes) -> Iterable[HloProgram]:
    """Yield the programs of an entry of a map of XEventMetadata."""
    for metadata in (each.data for each in fields(entry) if each.tag == 2):
        for stat in (each.data for each in fields(metadata) if each.tag == 5):
            for value in (each.data for each in fields(stat) if each.tag == 6):
                yield program_of(value)


def _error(source: Source, reason: str) -> InputError:
    return InputError(reason, source=source.name)
