"""What a resource of the HTTP interface is made of: operations, their parameters, bodies and answers, as data.

The server routes by it, requests are checked against it, and the OpenAPI document is made from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from controller.rest.backend import UNCONDITIONAL, Backend, Caller, Condition, Role
from controller.rest.messages import JSON, Response
from controller.rest.problems import ProblemError, bad_input

_WHOLE = re.compile(r"0|[1-9][0-9]{0,15}")

KIB = 1024


@dataclass(frozen=True)
class Text:
    """A parameter that is text. ``pattern``: what all of it looks like; where there is none, ``longest`` counts."""

    pattern: str = ""
    longest: int = 200

    def schema(self) -> dict[str, Any]:
        """In JSON Schema."""
        if self.pattern:
            return {"type": "string", "pattern": f"^{self.pattern}$"}
        return {"type": "string", "minLength": 1, "maxLength": self.longest}

    def read(self, name: str, text: str) -> str:
        """The value.

        Raises:
            ProblemError: it is none.
        """
        if self.pattern and not re.fullmatch(self.pattern, text):
            raise bad_input(f"must match {self.pattern}", field=name, value=text)
        if not self.pattern and not 1 <= len(text) <= self.longest:
            raise bad_input(f"must have 1 to {self.longest} characters", field=name, value=text)
        return text


@dataclass(frozen=True)
class Whole:
    """A parameter that is an integer, in decimal digits."""

    least: int
    most: int
    default: int | None = None

    def schema(self) -> dict[str, Any]:
        """In JSON Schema."""
        bounds = {"type": "integer", "minimum": self.least, "maximum": self.most}
        return bounds if self.default is None else bounds | {"default": self.default}

    def read(self, name: str, text: str) -> int:
        """The value.

        Raises:
            ProblemError: it is none.
        """
        if not _WHOLE.fullmatch(text) or not self.least <= int(text) <= self.most:
            raise bad_input(f"must be an integer from {self.least} to {self.most}", field=name, value=text)
        return int(text)


@dataclass(frozen=True)
class Parameter:
    """A parameter of the query, of the path (always required), or a header."""

    name: str
    description: str
    kind: Text | Whole
    example: str | int
    required: bool = False
    place: Literal["query", "path", "header"] = "query"


@dataclass(frozen=True)
class Body:
    """A JSON body.

    Attributes:
        form: its model.
        example: a body that works on the fabric of the examples.
        most_bytes: more are refused; ``None``: as many as the server lets through.
        or_form: another model that a body may have instead.
    """

    form: type[BaseModel]
    example: Mapping[str, Any]
    most_bytes: int | None = 64 * KIB
    or_form: type[BaseModel] | None = None

    @property
    def forms(self) -> tuple[type[BaseModel], ...]:
        return (self.form,) if self.or_form is None else (self.form, self.or_form)


@dataclass(frozen=True)
class Call:
    """A request that was checked: who asks, and for what.

    Attributes:
        caller: ``None`` only where the operation is open and whoever asks has no token.
        secured: whether callers need a token.
        variables, parameters: values by name; parameters that were not given are those with a default, or missing.
        accept: the types that the caller takes, as in the Accept header; empty: any.
    """

    caller: Caller | None
    method: str
    path: str
    secured: bool = False
    variables: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    body: bytes = b""
    condition: Condition = UNCONDITIONAL
    accept: str = ""

    @property
    def who(self) -> Caller:
        """The caller of an operation that is not open."""
        assert self.caller is not None
        return self.caller


@dataclass(frozen=True)
class Operation:
    """One method of one resource.

    Attributes:
        id: its name in the OpenAPI document, for generated clients.
        handle: called with the backend and the checked request.
        summary: one line for people.
        answers: the model of the document for each successful status; ``None``: no document.
        role: what the caller must be allowed.
        problems: statuses of problems that it has beside those that every operation has.
        conditional: whether it heeds If-Match and If-None-Match.
        tagged: whether its answers carry an ETag.
        open: whether it answers callers without a token, too (in its own way), and however much is going on.
        media_type: of a successful answer; ``also``: others, which callers may prefer.
        slow: whether switches are waited for.
    """

    id: str
    handle: Callable[[Backend, Call], Response]
    summary: str
    answers: Mapping[int, type[BaseModel] | None]
    role: Role = Role.READ
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    problems: frozenset[int] = frozenset()
    conditional: bool = False
    tagged: bool = False
    open: bool = False
    media_type: str = JSON
    also: tuple[str, ...] = ()
    description: str = ""
    slow: bool = False

    @property
    def takes_long(self) -> bool:
        """Whether it may wait for a plan or for switches, so that many of its kind must not keep those that only read
        what is there waiting."""
        return self.role is Role.WRITE or self.body is not None or self.slow


@dataclass(frozen=True)
class Resource:
    """A path and what can be done there.

    Attributes:
        path: template with variables in braces, each standing for one segment, or for what is before a colon in it.
        variables: the variables of the path.
        operations: by method; HEAD and OPTIONS come by themselves.
    """

    name: str
    path: str
    operations: Mapping[str, Operation]
    variables: tuple[Parameter, ...] = ()

    @property
    def allow(self) -> tuple[tuple[str, str], ...]:
        """The Allow header."""
        methods = [*self.operations, *(["HEAD"] if "GET" in self.operations else []), "OPTIONS"]
        return (("Allow", ", ".join(sorted(methods))),)

    def read_variables(self, given: Mapping[str, str]) -> dict[str, Any]:
        """The values of the path's variables.

        Raises:
            ProblemError: one of them is none.
        """
        return {variable.name: variable.kind.read(variable.name, given[variable.name]) for variable in self.variables}


def missing(parameter: Parameter) -> ProblemError:
    """A parameter that must be given was not."""
    return bad_input(f"{parameter.place} parameter is missing", field=parameter.name)
