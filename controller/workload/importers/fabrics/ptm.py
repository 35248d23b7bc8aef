"""Importer ``ptm``: ``topology.dot`` of Cumulus Linux' Prescriptive Topology Manager, also as simulators use it.

::

    graph dc {
     "leaf01" [function="leaf" os="cumulus-vx"]
     "leaf01":"swp51" -- "spine01":"swp1"
     "server01":"eth1" -- "leaf01":"swp1" [left_mac="00:03:00:11:11:01"]
    }

Of the language of Graphviz (https://graphviz.org/doc/info/lang.html) this reads nodes, edges between two ports, their
attributes and comments. A node is a switch by its ``function``, else by its ``os``, else by the names of its ports.
Nodes for management and the world outside (``oob-switch``, ``oob-server``, ``internet``) are left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from controller.model.errors import InputError
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.documents import content
from controller.workload.importers.fabrics.graph import fabric_of, one
from controller.workload.importers.fabrics.neighbours.kinds import (
    is_switch_by_role,
    is_switch_by_system,
    is_switch_port,
)
from controller.workload.importers.fabrics.neighbours.reports import Reports
from controller.workload.importers.fields import SourceLine
from controller.workload.importers.head import Head

_OUTSIDE = ("oob", "internet", "fake", "exclude")

_SKIPPED = re.compile(r"(?:\s+|//[^\n]*|#[^\n]*|/\*.*?\*/)+", re.DOTALL)
_TOKEN = re.compile(
    r'"((?:[^"\\]|\\.)*)"|([A-Za-z0-9_.\x80-\U0010ffff]+|-?\.?\d[\d.]*)|(--|->|[{}\[\]:;,=])', re.DOTALL
)
_EDGE = re.compile(r'"?[\w.-]+"?\s*:\s*"?[\w./-]+"?\s*--\s*"?[\w.-]+"?\s*:', re.ASCII)


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    begins = re.match(r"(?:strict\s+)?graph\b[^{]{0,80}\{", _SKIPPED.sub(" ", head.text).lstrip())
    return "cabling in PTM's topology.dot: a fabric" if begins and _EDGE.search(head.text) else ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a fabric.

    Raises:
        InputError: a statement is invalid or of no such kind, or the network is not a fabric of two or three layers.
    """
    source = one(sources, "PTM")
    dot = _Dot(source)
    dot.read()
    reports = Reports()
    for name, has in dot.nodes.items():
        is_switch = is_switch_by_role(has.get("function", ""))
        if is_switch is None:
            is_switch = is_switch_by_system(has.get("os", ""))
        if is_switch is not None:
            reports.is_switch[name] = is_switch
    outside = {name for name, has in dot.nodes.items() if has.get("function", "").lower().startswith(_OUTSIDE)}
    for here, there in dot.edges:
        if here[0] in outside or there[0] in outside:
            reports.leave_out("lead to nodes for management or outside")
            continue
        for node, port in (here, there):
            if is_switch_port(port):
                reports.is_switch.setdefault(node, True)
        reports.cable(here, there)
    return fabric_of(reports.graph("ptm", source), request)


class _Dot:
    """A reader of statements; ``nodes`` has their attributes, ``edges`` two pairs of node and port each."""

    def __init__(self, source: Source) -> None:
        self.nodes: dict[str, dict[str, str]] = {}
        self.edges: list[tuple[tuple[str, str], tuple[str, str]]] = []
        self._source = source
        try:
            self._text = content(source).decode()
        except UnicodeDecodeError:
            raise InputError("is not UTF-8 text", source=source.name) from None
        self._at = self._begin = 0
        self._next: tuple[str, bool] | None = None
        self._advance()

    def read(self) -> None:
        """Read the whole file.

        Raises:
            InputError: with the line.
        """
        if self._is("strict"):
            self._advance()
        if not self._is("graph"):
            raise self._error("is not a graph of Graphviz (graph NAME {)")
        self._advance()
        if not self._is("{"):
            self._name()
        self._expect("{")
        while not self._is("}"):
            self._statement()
        self._advance()

    def _statement(self) -> None:
        if self._is(";"):
            self._advance()
            return
        if self._is("{") or self._is("subgraph"):
            raise self._error("subgraphs are not read")
        begin = self._begin
        first = self._name()
        if self._is("="):  # an attribute of the graph
            self._advance()
            self._name()
            return
        ends = [(first, self._port())]
        while self._is("--") or self._is("->"):
            self._advance()
            name = self._name()
            ends.append((name, self._port()))
        has: dict[str, str] = {}
        while self._is("["):
            has |= self._attributes()
        if len(ends) == 1:
            # Defaults of all nodes or edges say nothing of one.
            if first not in ("graph", "node", "edge"):
                self.nodes.setdefault(first, {}).update(has)
            return
        for here, there in pairwise(ends):
            for node, port in (here, there):
                if not port:
                    raise self._error('an end of a cable has no port ("leaf01":"swp1")', node, begin)
                self.nodes.setdefault(node, {})
            self.edges.append((here, there))

    def _port(self) -> str:
        """Return the port behind a node; empty: none is given."""
        if not self._is(":"):
            return ""
        self._advance()
        return self._name()

    def _attributes(self) -> dict[str, str]:
        self._expect("[")
        has: dict[str, str] = {}
        while not self._is("]"):
            if self._is(",") or self._is(";"):
                self._advance()
                continue
            key = self._name()
            has[key] = ""
            if self._is("="):
                self._advance()
                has[key] = self._name()
        self._advance()
        return has

    def _name(self) -> str:
        if self._next is None or self._next[1]:
            raise self._error("is not a name here", None if self._next is None else self._next[0])
        text = self._next[0]
        self._advance()
        return text

    def _expect(self, sign: str) -> None:
        if not self._is(sign):
            raise self._error(f"{sign!r} is missing", None if self._next is None else self._next[0])
        self._advance()

    def _is(self, text: str) -> bool:
        return self._next is not None and self._next[0] == text and (self._next[1] or text.isalpha())

    def _advance(self) -> None:
        """Go to the next token: its text, and whether it is a sign."""
        if skipped := _SKIPPED.match(self._text, self._at):
            self._at = skipped.end()
        self._begin = self._at
        if self._at == len(self._text):
            self._next = None
            return
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            raise self._error("is not of the language of Graphviz", self._text[self._at : self._at + 20])
        self._at = match.end()
        quoted, plain, sign = match.groups()
        self._next = (sign, True) if sign else (plain if plain is not None else quoted.replace('\\"', '"'), False)

    def _error(self, reason: str, value: str | None = None, at: int | None = None) -> InputError:
        if value is None and self._next is None:
            reason = f"ends too early: {reason}"
        return SourceLine(self._source, self._text.count("\n", 0, self._begin if at is None else at) + 1).error(
            reason, value
        )
