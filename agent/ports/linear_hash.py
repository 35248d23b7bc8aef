"""Hashes of routers that are linear, so that few probes show the paths of all ports.

CRCs and XORs are linear over GF(2): where routers choose among a power of two of uplinks by bits of such a hash, the
flip of a bit of the port changes the choice in the same way whatever the other bits are, and two addresses instead of
two others add a constant. A *lesson* learns this from one destination: it flips each bit of a port, and names paths by
vectors over GF(2), whatever the order in which routers number their uplinks: 1 + 14 + (P - 1 - log2 P) probes for P
paths and 14 bits. Then it checks predictions. From then on one port of another destination shows where all its ports
lead. A hash that is not linear (that of Linux) fails the lesson, whose ports are candidates as good as others.
"""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Any, Literal

from controller.model.errors import InputError

CHECKS = 8
"""Predictions that must be right. A hash that is not linear passes with a chance of P to the power of -8."""

HashKind = Literal["learning", "linear", "other"]


class LinearHash:
    """What is known of the hash of the routers on the way to some destinations, all of which have the same paths.

    Attributes:
        kind: ``other``: it is not linear, or there is not a power of two of paths.
        asked: the port of which the lesson needs the path next; all of a lesson are to one destination.
        is_refuted: whether a prediction was wrong.
    """

    def __init__(self, first_port: int, last_port: int, n_paths: int, random: Random) -> None:
        """Begin to learn.

        Args:
            first_port: the lowest port that may be used.
            last_port: the highest.
            n_paths: number of paths to each of the destinations.
            random: draws ports among those that are equally good.
        """
        room = last_port - first_port + 1
        # Flips of the low bits of the first port stay between the ends.
        self._base, self._random, self._n_paths = first_port, random, n_paths
        self._bits = min(room.bit_length() - 1, (first_port & -first_port).bit_length() - 1)
        usable = n_paths >= 4 and not n_paths & (n_paths - 1) and 1 << self._bits >= n_paths
        self.kind: HashKind = "learning" if usable else "other"
        self.is_refuted = False
        self.begin()

    def begin(self) -> None:
        """Begin a lesson."""
        self._vector: dict[int, int] = {}
        self._offset_of: dict[int, int] = {0: 0}
        self._columns: list[int] = []
        self._lesson = self._learn()
        self.asked = self._base + next(self._lesson)

    @property
    def probes(self) -> int:
        """How many probes a lesson takes."""
        return self._bits + self._n_paths + CHECKS

    def answer(self, path: int | None) -> None:
        """Go on with the lesson: take the path of ``asked``; ``None``: its answers fit no path."""
        if path is None:
            self.kind = "other"
            return
        try:
            self.asked = self._base + self._lesson.send(path)
        except StopIteration as end:
            self.kind = "linear" if end.value else "other"

    def shift(self, port: int, path: int) -> int | None:
        """Return what a destination adds to all its vectors, by one of its ports; ``None``: the port says nothing."""
        vector = self._vector.get(path)
        if vector is None or not self._covers(port):
            return None
        return vector ^ self._of(port - self._base)

    def port(self, shift: int, path: int) -> int | None:
        """Return a port that leads over a path to a destination of this shift; ``None``: there is none."""
        vector = self._vector.get(path)
        offset = None if vector is None else self._offset_of.get(vector ^ shift)
        if offset is None:
            return None
        # What changes no choice may be added.
        for bit, column in enumerate(self._columns):
            if self._random.random() < 0.5:
                offset ^= 1 << bit ^ self._offset_of[column]
        return self._base + offset

    def missed(self) -> None:
        """Note that a port that ``port`` has returned leads elsewhere."""
        self.kind, self.is_refuted = "other", True

    def document(self) -> dict[str, Any] | None:
        """Return what a lesson has taught, as plain data; ``None``: nothing yet."""
        if self.kind == "learning" or self.is_refuted:
            return None
        ends = {"kind": self.kind, "first_port": self._base, "bits": self._bits}
        if self.kind == "other":
            return ends
        tables = {"vectors": self._vector, "offsets": self._offset_of}
        return {**ends, "columns": self._columns, **{name: [*each.items()] for name, each in tables.items()}}

    def take(self, document: Any) -> None:
        """Know what a document has; one of other ports, or that is damaged, is ignored."""
        try:
            ends = document["kind"], document["first_port"], document["bits"]
            vector, offset_of = ({int(a): int(b) for a, b in document.get(name, ())} for name in ("vectors", "offsets"))
            columns = [int(each) for each in document.get("columns", ())]
        except (AttributeError, KeyError, TypeError, ValueError):
            return
        if self.kind != "learning" or ends[1:] != (self._base, self._bits):
            return
        if ends[0] == "other":
            self.kind = "other"
        elif ends[0] == "linear" and self._is_whole(vector, offset_of, columns):
            self.kind, self._vector, self._offset_of, self._columns = "linear", vector, offset_of, columns

    def _is_whole(self, vector: dict[int, int], offset_of: dict[int, int], columns: list[int]) -> bool:
        every = set(range(len(vector)))
        room = range(1 << self._bits)
        return (
            0 < len(vector) <= self._n_paths
            and set(vector.values()) == every == offset_of.keys()
            and all(offset in room for offset in offset_of.values())
            and len(columns) == self._bits
            and every.issuperset(columns)
        )

    def _covers(self, port: int) -> bool:
        return 0 <= port - self._base < 1 << self._bits

    def _of(self, offset: int) -> int:
        """Return the vector of an offset from the first port."""
        vector = 0
        for bit, column in enumerate(self._columns):
            if offset >> bit & 1:
                vector ^= column
        return vector

    def _learn(self) -> Generator[int, int, bool]:
        """Yield offsets, get their paths; return whether the hash is linear."""
        self._vector[(yield 0)] = 0
        for bit in range(self._bits):
            path = yield 1 << bit
            if path not in self._vector:
                # A new dimension: each vector that is known has another one behind it.
                new = len(self._offset_of)
                known = [*self._offset_of.items()]
                self._vector[path], self._offset_of[new] = new, 1 << bit
                for vector, offset in known[1:]:
                    other = yield 1 << bit ^ offset
                    if other in self._vector:
                        return False
                    self._vector[other], self._offset_of[new ^ vector] = new ^ vector, 1 << bit ^ offset
            self._columns.append(self._vector[path])
        by_vector = {vector: path for path, vector in self._vector.items()}
        for _ in range(CHECKS):
            offset = self._random.randrange(1 << self._bits)
            if (yield offset) != by_vector[self._of(offset)]:
                return False
        return True


_Paths = tuple[tuple[int, ...], frozenset[int]]
"""The hop limits that tell paths apart, and the numbers of these."""


class HashModels:
    """What is known of the hashes on the way to all destinations, by the paths to them."""

    def __init__(self) -> None:
        """Begin without models."""
        self._models: dict[_Paths, LinearHash] = {}
        self._saved: dict[_Paths, Any] = {}

    def model(self, hops: tuple[int, ...], paths: frozenset[int], ports: tuple[int, int], random: Random) -> LinearHash:
        """Return the model of destinations with these paths, told apart by these hop limits; ``ports``: the ends."""
        key = hops, paths
        if key not in self._models:
            self._models[key] = LinearHash(*ports, len(paths), random)
            self._models[key].take(self._saved.pop(key, None))
        return self._models[key]

    @property
    def is_refuted(self) -> bool:
        """True if a prediction of one of them was wrong."""
        return any(model.is_refuted for model in self._models.values())

    def document(self) -> list[dict[str, Any]]:
        """Return what lessons have taught, as plain data."""
        known = {**self._saved, **{key: model.document() for key, model in self._models.items()}}
        return [
            {"hops": [*hops], "paths": sorted(paths), "hash": each} for (hops, paths), each in known.items() if each
        ]

    @staticmethod
    def read(rows: list[Any], where: str) -> HashModels:
        """Return what a document has, whose place has this name.

        Raises:
            InputError: it is no such document.
        """
        models = HashModels()
        for row in rows:
            try:
                key = tuple(map(int, row["hops"])), frozenset(map(int, row["paths"]))
                models._saved[key] = row["hash"]
            except (KeyError, TypeError, ValueError):
                raise InputError("are no models of hashes", field=where) from None
        return models

    @property
    def kind(self) -> HashKind | None:
        """What was seen of all hashes; ``None``: nothing yet."""
        kinds = {model.kind for model in self._models.values()} - {"learning"}
        return None if not kinds else "linear" if kinds == {"linear"} else "other"
