"""Declare a resource of the HTTP interface as data: operations, their parameters, bodies and answers.

``controller.rest.api`` gives them to Falcon and checks requests against them; ``openapi`` describes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import falcon
from pydantic import BaseModel, TypeAdapter, ValidationError

from controller.core.caller import Caller, Role
from controller.core.ports.api import Backend, Condition
from controller.core.ports.host_agents import HostRequest
from controller.model.files.fabric_file import from_validation_error
from controller.rest.problems import bad_input
from controller.rest.serving.budget import WorkKind

JSON = falcon.MEDIA_JSON
EVENT_STREAM = "text/event-stream"
PROMETHEUS, OPEN_METRICS = "text/plain", "application/openmetrics-text"

KIB = 1024

REQUEST_ID = "X-Request-ID"
"""Header of a request and of its answer: the id by which log and events name it."""

CLIENT_GONE = "fairspine.client_gone"
"""Key of the WSGI environment: a function, which any thread may call, that tells whether the client disconnected."""


CLIENT_HOSTS = "fairspine.client_hosts"
"""Key of the WSGI environment: the names in the certificate of the client; missing: it has none."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of the query, of the path (always required), or a header. ``type``: as pydantic reads it."""

    name: str
    description: str
    type: Any
    example: str | int
    required: bool = False
    place: Literal["query", "path", "header"] = "query"

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.type)

    def schema(self) -> dict[str, Any]:
        """Return its JSON Schema."""
        return self._adapter.json_schema()

    def read(self, text: str) -> Any:
        """Return its value.

        Raises:
            ProblemError: 400, the text is not valid.
        """
        try:
            return self._adapter.validate_python(text)
        except ValidationError as error:
            raise bad_input(from_validation_error(error).reason, field=self.name, value=text) from None


@dataclass(frozen=True)
class Body:
    """A JSON body.

    Attributes:
        form: its model.
        example: a body that works on the fabric of the examples.
        most_bytes: limit on its length; ``None``: the server's limit.
        or_form: another model that is accepted instead.
        optional: whether it may be missing.
    """

    form: type[BaseModel]
    example: Mapping[str, Any]
    most_bytes: int | None = 64 * KIB
    or_form: type[BaseModel] | None = None
    optional: bool = False

    @property
    def forms(self) -> tuple[type[BaseModel], ...]:
        """The models that are accepted."""
        return (self.form,) if self.or_form is None else (self.form, self.or_form)


def _nobody(_authorization: str | None) -> Caller:
    raise AssertionError("the operation has no headers in its body")


@dataclass(frozen=True)
class Call:
    """A checked request.

    Attributes:
        request: as it came.
        caller: ``None`` only where the operation is open and the request has no valid token.
        secured: whether callers need a token.
        values: variables of the path and parameters, by name; missing where neither given nor with a default.
        identify: returns the caller of an Authorization header in the body of a request; raises ``ProblemError``.
    """

    request: falcon.Request
    caller: Caller | None
    secured: bool
    values: Mapping[str, Any]
    condition: Condition
    body: bytes = b""
    identify: Callable[[str | None], Caller] = _nobody

    def gone(self) -> bool:
        """Return whether the client has disconnected, as far as the server can tell."""
        return bool(self.request.env.get(CLIENT_GONE, bool)())

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
        handle: called with the backend, the checked request, and the response to fill.
        summary: one line for people.
        answers: the model of the document for each successful status; ``None``: no document.
        role: the role that a caller needs.
        problems: statuses of problems beyond those that every operation has.
        conditional: whether it supports If-Match and If-None-Match.
        tagged: whether its answers carry an ETag that the resource keeps (of a job: its revision).
        open: whether callers without a token get an answer, too (a shorter one), and whether it is exempt from limits.
        media_type: of a successful answer; ``also``: others, by content negotiation.
        slow: whether it waits for switches.
        of_replica: whether every replica of a cluster answers it, not only the leader.
        confirmed: whether the leader of a cluster asks the store first whether it still leads.
        of_host: whether it is for the agent of the host that the path names (``host``), which the role ``host`` allows
            for that host only.
        of_tenant: whether tokens of a tenant may ask for it, though it changes something: it refuses others' jobs.
        of_replicas: whether replicas ask it in the name of agents, whose tokens it has: the role ``host`` allows it.
        relayed: returns what an agent asks; a replica that does not lead sends what several ask together.
        same_for_many: whether many clients get the same large answer, which is compressed once.
        of_store: whether its answer follows from the store, so that a follower may give it (``Fairspine-At-Least``).
    """

    id: str
    handle: Callable[[Backend, Call, falcon.Response], None]
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
    of_replica: bool = False
    confirmed: bool = True
    of_store: bool = False
    of_host: bool = False
    of_tenant: bool = False
    same_for_many: bool = False
    of_replicas: bool = False
    relayed: Callable[[Call], HostRequest] | None = None

    @property
    def content_tagged(self) -> bool:
        """Whether its answers carry an ETag of their content, and are 304 for a client that has it (If-None-Match)."""
        reads = self.role is Role.READ and self.body is None and self.media_type == JSON
        return reads and not self.tagged and not self.open and not self.of_agents

    @property
    def of_agents(self) -> bool:
        """Whether it is for agents of hosts, by themselves or by way of a replica."""
        return self.of_host or self.of_replicas

    @property
    def work(self) -> WorkKind:
        """The kind of work, for limits."""
        if self.of_agents:
            return WorkKind.AGENT
        if self.role is Role.WRITE:
            return WorkKind.CHANGE
        return WorkKind.PREVIEW if self.body is not None or self.slow else WorkKind.READ


@dataclass(frozen=True)
class Resource:
    """A path and its operations.

    Attributes:
        path: template with variables in braces, each for one segment, or for the part of one before a colon.
        variables: the variables of the path.
        operations: by method, without HEAD and OPTIONS, which every resource supports.
    """

    name: str
    path: str
    operations: Mapping[str, Operation]
    variables: tuple[Parameter, ...] = ()
