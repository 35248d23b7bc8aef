"""Configuration of an agent: its host, the cycles of its jobs, its parts in collectives, and its queue pairs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from controller.model.errors import InputError
from controller.model.packets.port_numbers import ROCE_PORT
from controller.model.timing import IterationGrid
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.job_cycle import JobCycle, cycles_of
from emulation.roce.sender import SenderOptions
from emulation.roce.shares import check_shares

FIRST_QP, LAST_QP = 2, 0xFFFFFE
"""Queue pairs 0 and 1 are for management, and all ones means multicast."""

MOST_DSCP = 63


@dataclass(frozen=True, slots=True)
class PieceConfig:
    """A queue pair to a peer: the whole flow, or a piece of a split one. Both ends call it by the same number.

    Attributes:
        paced: it sends at its share of its port's rate at most.
        src, dst: own address and the peer's, where hosts have several; empty: those in ``ranks``.
        pace: bit/s of payload that it keeps; ``None``: congestion control alone limits it.
        dscp: of its packets.
    """

    qp: int
    udp_src: int
    share: float = 1.0
    paced: bool = True
    src: str = ""
    dst: str = ""
    pace: float | None = None
    dscp: int = 0


@dataclass(frozen=True, slots=True)
class PartConfig:
    """This host's part in a collective; ``collective.ranks`` are IPv4 addresses.

    Attributes:
        sends: peer rank -> the pieces of the flow to it.
        receives: peer rank -> queue pair numbers of the flow from it.
    """

    collective: CollectiveSpec
    rank: int
    sends: Mapping[int, tuple[PieceConfig, ...]]
    receives: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The configuration of an agent.

    Attributes:
        cycles: when the jobs of ``parts`` compute and send.
        start_at: time of the monotonic clock at which all begin; None: the agent reports that it is ready and reads the
            time from standard input. (All network namespaces of a machine share one monotonic clock.)
        linger: seconds for which an agent with ``start_at`` answers its peers after it is done.
        tally_seconds: seconds between two reports of what each queue pair has sent; 0: none are made.
        addresses: by the address in ``ranks``: all addresses of each host that has several, this one included. Those
            of a bond differ in their zones (``controller.model.texts.zones``), which packets do not have.
        namespaces: by own address: a process in whose network namespace the port is; other ports are in the agent's.
    """

    host: str
    ip: str
    parts: tuple[PartConfig, ...]
    options: SenderOptions = field(default_factory=SenderOptions)
    port: int = ROCE_PORT
    start_at: float | None = None
    linger: float = 5.0
    cycles: tuple[JobCycle, ...] = ()
    tally_seconds: float = 0.0
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    namespaces: Mapping[str, int] = field(default_factory=dict)

    def addresses_of(self, ip: str) -> tuple[str, ...]:
        """Return all addresses of the host that has this one in ``ranks``."""
        return self.addresses.get(ip, (ip,))


def to_document(config: AgentConfig) -> dict[str, Any]:
    """Return the configuration as plain data, from which ``parse`` makes an equal one."""
    return {
        "host": config.host,
        "ip": config.ip,
        "port": config.port,
        "start_at": config.start_at,
        "linger": config.linger,
        "tally_seconds": config.tally_seconds,
        "addresses": {ip: list(every) for ip, every in config.addresses.items()},
        "namespaces": dict(config.namespaces),
        "options": {f.name: getattr(config.options, f.name) for f in fields(SenderOptions)},
        "jobs": [
            {
                "job": cycle.job,
                "iterations": cycle.iterations,
                "compute": [{"phase": phase, "seconds": seconds} for phase, seconds in cycle.compute],
                "awaited": list(cycle.awaited),
                **({} if cycle.grid is None else asdict(cycle.grid)),
            }
            for cycle in config.cycles
        ],
        "collectives": [
            {
                **{f.name: getattr(part.collective, f.name) for f in fields(CollectiveSpec)},
                "rank": part.rank,
                "sends": [
                    {
                        "peer": peer,
                        "pieces": [asdict(piece) for piece in pieces],
                    }
                    for peer, pieces in part.sends.items()
                ],
                "receives": [{"peer": peer, "qps": list(qps)} for peer, qps in part.receives.items()],
            }
            for part in config.parts
        ],
    }


def read(path: str) -> AgentConfig:
    """Read a file.

    Raises:
        InputError: it cannot be read, or is no configuration; ``source`` is the path.
    """
    try:
        return parse(json.loads(Path(path).read_bytes()))
    except OSError as error:
        raise InputError(error.strerror or str(error), source=path) from error
    except InputError as error:
        raise error.with_source(path) from error
    except ValueError as error:
        raise InputError(f"not JSON: {error}", source=path) from error


def parse(document: Any) -> AgentConfig:
    """Check plain data.

    Raises:
        InputError: a key that is missing or unknown, or a value that cannot be used.
    """
    row = _Row(document, "")
    parts = tuple(_part(part) for part in row.rows("collectives"))
    given = [_cycle(job) for job in (row.rows("jobs") if "jobs" in row.values else [])]
    config = AgentConfig(
        host=row.take("host", str),
        ip=row.take("ip", str),
        parts=parts,
        cycles=tuple(cycles_of((part.collective for part in parts), given).values()),
        options=_options(row.take("options", dict, {})),
        port=row.take("port", int, ROCE_PORT),
        start_at=row.take("start_at", float, None),
        linger=row.take("linger", float, 5.0),
        tally_seconds=row.take("tally_seconds", float, 0.0),
        addresses=_addresses(row.take("addresses", dict, {})),
        namespaces=_namespaces(row.take("namespaces", dict, {})),
    )
    row.nothing_left()
    _check_paths(config)
    if config.start_at is not None:
        _check_alone(config)
    seen: set[tuple[str, int]] = set()
    for i, part in enumerate(config.parts):
        numbers = [("send", p.qp) for pieces in part.sends.values() for p in pieces]
        numbers += [("receive", qp) for qps in part.receives.values() for qp in qps]
        for number in numbers:
            if number in seen:
                raise InputError("two flows have this queue pair", field=f"collectives[{i}]", value=number[1])
            seen.add(number)
    return config


def _addresses(given: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    for ip, every in given.items():
        if not isinstance(every, list) or ip not in every or not all(isinstance(one, str) for one in every):
            raise InputError("must be a list of addresses that has this one", field=f"addresses.{ip}", value=every)
    return {ip: tuple(every) for ip, every in given.items()}


def _namespaces(given: dict[str, Any]) -> dict[str, int]:
    for ip, process in given.items():
        if not isinstance(process, int) or process < 1:
            raise InputError("must be the number of a process", field=f"namespaces.{ip}", value=process)
    return dict(given)


def _check_paths(config: AgentConfig) -> None:
    """Check that queue pairs use addresses of their hosts."""
    for i, part in enumerate(config.parts):
        for peer, pieces in part.sends.items():
            own, theirs = (config.addresses_of(ip) for ip in (config.ip, part.collective.ranks[peer]))
            for piece in pieces:
                for name, address, known in (("src", piece.src, own), ("dst", piece.dst, theirs)):
                    if address and address not in known:
                        raise InputError(
                            f"queue pair {piece.qp}: the host has {', '.join(known)}",
                            field=f"collectives[{i}].sends.{name}",
                            value=address,
                        )


def _check_alone(config: AgentConfig) -> None:
    """Without a launcher, whose barrier keeps the ranks of a job together, its collectives must do that."""
    labels = {part.collective.label for part in config.parts}
    for i, part in enumerate(config.parts):
        for name in part.collective.after:
            if f"{part.collective.job}/{name}" not in labels:
                raise InputError(
                    "this host has no part in it, and hears of its end from a launcher only: not if start_at is given",
                    field=f"collectives[{i}].after",
                    value=name,
                )
        if part.collective.iterations > 1 and not part.collective.synchronises:
            raise InputError(
                "must be one if some ranks send nothing to others and start_at is given",
                field=f"collectives[{i}].iterations",
                value=part.collective.iterations,
            )


def _cycle(row: _Row) -> JobCycle:
    grid = None
    if "period_seconds" in row.values:
        grid = IterationGrid(
            row.take("period_seconds", float), row.take("shift_seconds", float, 0.0), row.take("hold", bool, False)
        )
    awaited = row.names("awaited")
    phases = []
    for phase in row.rows("compute"):
        phases.append((phase.take("phase", int), phase.take("seconds", float)))
        phase.nothing_left()
    try:
        cycle = JobCycle(row.take("job", str), row.take("iterations", int, 1), tuple(phases), grid, awaited)
    except InputError as error:
        raise InputError(error.reason, field=f"{row.where}.{error.field}", value=error.value) from error
    row.nothing_left()
    return cycle


def _options(values: dict[str, Any]) -> SenderOptions:
    row = _Row(values, "options")
    given = {}
    for option in fields(SenderOptions):
        given[option.name] = row.take(option.name, type(option.default), option.default)
    row.nothing_left()
    return SenderOptions(**given)


def _part(row: _Row) -> PartConfig:
    rank = row.take("rank", int)
    sends, receives = {}, {}
    for flow in row.rows("sends"):
        pieces = tuple(_piece(piece) for piece in flow.rows("pieces"))
        check_shares([piece.share for piece in pieces], field=f"{flow.where}.pieces")
        sends[flow.take("peer", int)] = pieces
        flow.nothing_left()
    for flow in row.rows("receives"):
        receives[flow.take("peer", int)] = tuple(_qp(qp, flow.where) for qp in flow.take("qps", list))
        flow.nothing_left()
    collective = _collective(row)
    row.nothing_left()
    if not 0 <= rank < collective.n_ranks:
        raise InputError(f"there are {collective.n_ranks} ranks", field=f"{row.where}.rank", value=rank)
    flows = collective.flows()
    for name, have, needed in (
        ("sends", set(sends), {b for a, b in flows if a == rank}),
        ("receives", set(receives), {a for a, b in flows if b == rank}),
    ):
        if have != needed:
            reason = f"{collective.label} needs exactly the peers {sorted(needed)}"
            raise InputError(reason, field=f"{row.where}.{name}", value=sorted(have))
    return PartConfig(collective, rank, sends, receives)


def _collective(row: _Row) -> CollectiveSpec:
    kinds: dict[str, Any] = {
        "bytes": int,
        "seed": int,
        "iterations": int,
        "phase": int,
        "overlaps": bool,
        "message_bytes": int,
        "ranks": list,
        "matrix": list,
    }
    given = {}
    after = row.names("after")
    for key in (f.name for f in fields(CollectiveSpec)):
        if key in row.values:
            given[key] = row.take(key, kinds.get(key, str))
    for name in ("job", "name", "ranks"):
        if name not in given:
            raise InputError("is missing", field=f"{row.where}.{name}")
    try:
        matrix = tuple(tuple(int(size) for size in line) for line in given.pop("matrix", ()))
        return CollectiveSpec(**{**given, "ranks": tuple(map(str, given["ranks"])), "matrix": matrix, "after": after})
    except InputError as error:
        raise InputError(error.reason, field=f"{row.where}.{error.field}", value=error.value) from error
    except (TypeError, ValueError) as error:
        raise InputError("rows of numbers of bytes", field=f"{row.where}.matrix") from error


def _piece(row: _Row) -> PieceConfig:
    piece = PieceConfig(
        _qp(row.take("qp", int), row.where),
        row.take("udp_src", int),
        row.take("share", float, 1.0),
        row.take("paced", bool, True),
        row.take("src", str, ""),
        row.take("dst", str, ""),
        row.take("pace", float, None),
        row.take("dscp", int, 0),
    )
    if piece.pace is not None and not piece.pace > 0:
        raise InputError("must be more than 0", field=f"{row.where}.pace", value=piece.pace)
    if not 0 <= piece.dscp <= MOST_DSCP:
        raise InputError(f"a DSCP is 0 to {MOST_DSCP}", field=f"{row.where}.dscp", value=piece.dscp)
    row.nothing_left()
    return piece


def _qp(value: Any, where: str) -> int:
    if not isinstance(value, int) or not FIRST_QP <= value <= LAST_QP:
        raise InputError(f"a queue pair is {FIRST_QP} to {LAST_QP}", field=where, value=value)
    return value


class _Row:
    """A JSON object whose keys are taken one by one."""

    def __init__(self, values: Any, where: str) -> None:
        if not isinstance(values, dict):
            raise InputError("must be an object", field=where, value=values)
        self.values = dict(values)
        self.where = where

    def take(self, key: str, kind: type, *default: Any) -> Any:
        if key not in self.values:
            if not default:
                raise InputError("is missing", field=self._path(key))
            return default[0]
        value = self.values.pop(key)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if default and default[0] is None and value is None:
            return None
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise InputError(f"must be {_KINDS[kind]}", field=self._path(key), value=value)
        return value

    def rows(self, key: str) -> list[_Row]:
        return [_Row(value, f"{self._path(key)}[{i}]") for i, value in enumerate(self.take(key, list))]

    def names(self, key: str) -> tuple[str, ...]:
        names = self.take(key, list, [])
        for i, name in enumerate(names):
            if not isinstance(name, str):
                raise InputError(f"must be {_KINDS[str]}", field=f"{self._path(key)}[{i}]", value=name)
        return tuple(names)

    def nothing_left(self) -> None:
        for key in self.values:
            raise InputError("no such key", field=self._path(key))

    def _path(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key


_KINDS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
    bool: "true or false",
}
