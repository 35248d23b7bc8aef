"""The HTTP interface as a Falcon application.

Falcon routes, knows methods and headers, and turns errors into responses. Added here, for each request in this order:
its Host and Origin, the caller's token and role, limits, parameters, conditions, and the type and length of its body.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import falcon
from falcon.routing import BaseConverter

from controller.core.caller import ANONYMOUS, Caller, Role
from controller.core.change_number import ChangeNumber
from controller.core.errors import ConflictError, NotAllowedError, PreconditionFailedError
from controller.core.ports.api import UNCONDITIONAL, Backend
from controller.logs.request_context import begin_request
from controller.model.errors import InputError, NotFoundError, UnavailableError
from controller.rest.access_log import log_access
from controller.rest.agent_relay import AgentRelay, NotRelayedError
from controller.rest.conditions import AT_LEAST, REASON, change_of, condition, header_parameters
from controller.rest.events import EventStream
from controller.rest.forwarding import CHANGE, FORWARDED, Forwarder, no_leader
from controller.rest.operation import CLIENT_GONE, CLIENT_HOSTS, JSON, REQUEST_ID, Call, Operation, Resource
from controller.rest.pages import Methods, Page, pages
from controller.rest.problems import (
    STORAGE,
    UNAVAILABLE,
    ProblemError,
    bad_input,
    beyond_scope,
    from_error,
    internal,
    unavailable,
    write_problem,
)
from controller.rest.representation import represent
from controller.rest.security.access import certified
from controller.rest.security.http_security import HttpSecurity
from controller.rest.security.local_user import user_of_client
from controller.rest.security.origin import Names
from controller.rest.serving.budget import Quotas, Share, WorkKind
from controller.rest.serving.change_rates import ChangeRates
from controller.rest.serving.event_loop import EventLoop
from controller.rest.serving.framing import PIECE_BYTES
from controller.rest.serving.limits import ClientLimits
from controller.rest.serving.relayed_stream import RelayedStream
from controller.rest.serving.sending import Paced, Streamed

LOG = logging.getLogger(__name__)

Answered = Callable[[str, str, int, float], None]
"""Called for each request: the operation's id (empty: none), method, status, seconds until the answer began."""

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
MOST_NAMED = 5
"""Hosts of one certificate that a refusal names."""

_PASSED_ON = (FORWARDED, "Forwarded", "X-Forwarded-For", "Via")

_JSON_TYPE = re.compile(r"application/(?:json|[a-z0-9!#$&^_.-]+\+json)", re.IGNORECASE)


def no_observer(operation: str, method: str, status: int, seconds: float) -> None:
    """Ignore an answered request."""


class Segment(BaseConverter):
    """A percent-encoded path segment as text; what is not UTF-8 becomes U+FFFD. Empty segments match no route."""

    def convert(self, value: str) -> str | None:
        """Return the text."""
        return unquote(value, errors="replace") or None


class Endpoint(Methods):
    """The responders of one resource, which Falcon finds by name. For HEAD, it sends the head of GET alone."""

    def __init__(self, resource: Resource, run: Callable[..., None]) -> None:
        """Add a responder for each method of a resource; ``run(resource, operation, ...)`` answers requests."""
        for method, operation in resource.operations.items():
            responder = functools.partial(run, resource, operation)
            setattr(self, f"on_{method.lower()}", responder)
            if method == "GET":
                self.on_head = responder


class _Log:
    """Counts and logs each answered request, after all else."""

    def __init__(self, answered: Answered) -> None:
        self._answered = answered

    def process_response(self, request: falcon.Request, response: falcon.Response, _resource: Any, _ok: bool) -> None:
        """Count and log. Falcon calls this."""
        seconds, operation = time.monotonic() - request.context.began, request.context.operation
        size = int(response.get_header("Content-Length", default="0")) or len(response.data or b"")
        self._answered("" if operation is None else operation.id, request.method, response.status_code, seconds)
        routine = operation is not None and operation.of_host
        log_access(
            request.remote_addr, request.method, request.path, response.status_code, size, seconds, routine=routine
        )


class Api:
    """The Falcon application, ``app``, of a backend, and what its requests share.

    Its server has ``read_body`` in ``wsgi.input`` and the target as sent in ``RAW_URI`` (``Connection.get_environ``).
    """

    def __init__(
        self,
        backend: Backend,
        resources: Iterable[Resource],
        names: Names,
        *,
        security: HttpSecurity | None = None,
        limits: ClientLimits | None = None,
        answered: Answered = no_observer,
        loop: EventLoop | None = None,
    ) -> None:
        """Register the resources; a ``None`` stands for no access control, the default limits, no event loop."""
        self._backend, self._names = backend, names
        security = security or HttpSecurity()
        self._access, self._limits, self._loop = security.access, limits or ClientLimits(), loop or EventLoop()
        self._forwarder = Forwarder(lambda: backend.leader, security.peers)
        self._relay = AgentRelay(lambda: backend.leader, self._forwarder.ask, no_leader)
        self.quotas, self._rates = Quotas(self._limits), ChangeRates()
        self.app: falcon.App[falcon.Request, falcon.Response] = falcon.App(middleware=[_Log(answered), self])
        self.app.router_options.converters["segment"] = Segment
        self.app.set_error_serializer(write_problem)
        self.app.add_error_handler(Exception, self._unexpected)
        for expected in (
            InputError,
            NotFoundError,
            UnavailableError,
            PreconditionFailedError,
            ConflictError,
            NotAllowedError,
        ):
            self.app.add_error_handler(expected, self._refused)
        for resource in resources:
            self.app.add_route(re.sub(r"\{(\w+)\}", r"{\1:segment}", resource.path), Endpoint(resource, self._run))
        for path, asset in pages().items():
            self.app.add_route(path, Page(asset))

    # -- around every request ------------------------------------------------------------------------------------

    def process_request(self, request: falcon.Request, response: falcon.Response) -> None:
        """Check Host and Origin, before routing. Falcon calls this."""
        request.context.began = time.monotonic()
        request.context.id = _request_id(request)
        begin_request(request.context.id)
        request.context.operation, request.context.of_store = None, False
        request.context.share = Share(self.quotas.rooms[WorkKind.READ], request.remote_addr)
        local, target = request.env["SERVER_NAME"], request.env["RAW_URI"]
        self._names.check(request.method, request.headers_lower, local, target)
        if (request.method, request.path) == ("OPTIONS", "*"):
            response.status, response.complete = HTTPStatus.NO_CONTENT, True
        elif request.path.startswith("//") or request.path[0] != "/":
            # Falcon's router does not count leading slashes.
            raise falcon.HTTPNotFound

    def process_resource(self, request: falcon.Request, _response: Any, resource: Methods, _params: Any) -> None:
        """Answer methods that Falcon has never heard of as those that the resource does not have. Falcon calls this."""
        if request.method not in falcon.COMBINED_METHODS:
            raise falcon.HTTPMethodNotAllowed(resource.methods)

    def process_response(self, request: falcon.Request, response: falcon.Response, _resource: Any, _ok: bool) -> None:
        """Complete the headers and begin to send. Falcon calls this, for errors, too."""
        share: Share = request.context.share
        share.give_bytes()
        response.set_header("Cache-Control", "no-cache")
        response.set_header(REQUEST_ID, request.context.id)
        response.set_header("X-Content-Type-Options", "nosniff")
        if request.context.of_store and (change := self._backend.change) is not None:
            # Read after the answer was made: who asks for what this one shows never gets less.
            response.set_header(CHANGE, str(change))
        stream, body = response.stream, response.data or b""
        response.stream = None if isinstance(stream, EventStream | RelayedStream) else stream
        if isinstance(stream, EventStream | RelayedStream):
            response.stream = Streamed(stream, self.quotas.streams, share.who)
        elif len(body) > PIECE_BYTES and request.method != "HEAD":
            response.set_stream(Paced(body, share, self._limits.body_seconds, self._loop.yield_turn), len(body))
            response.data = None

    def _refused(self, request: falcon.Request, _response: Any, error: Any, _params: Any) -> None:
        raise from_error(error, has_body=request.context.operation.body is not None)

    def _unexpected(self, request: falcon.Request, _response: Any, _error: Exception, _params: Any) -> None:
        """Log one traceback; the response has only its id."""
        error_id = secrets.token_hex(4)
        LOG.exception("error %s: %s %s", error_id, request.method, request.path)
        raise internal(error_id)

    # -- one operation -------------------------------------------------------------------------------------------

    def _run(
        self, resource: Resource, operation: Operation, request: falcon.Request, response: falcon.Response, **path: str
    ) -> None:
        request.context.operation = operation
        caller = self._caller(operation, request, path)
        named = self._access.required and caller is not None
        who = f"token {caller.name}" if named and caller is not None else request.remote_addr
        share = request.context.share = Share(self.quotas.rooms[operation.work], who)
        variables = {variable.name: variable.read(path[variable.name]) for variable in resource.variables}
        values = variables | _parameters(operation, request)
        wanted = condition(request) if operation.conditional else UNCONDITIONAL
        forwards = not operation.of_replica and self._backend.leader is not None
        if forwards and not self._backend.leader and not (operation.of_store and values.get(AT_LEAST.name)):
            raise no_leader("the cluster has no leader now")
        body = b"" if operation.body is None else self._body(operation, request, share)
        call = Call(request, caller, self._access.required, values, wanted, body, self._access.caller)
        if operation.open:
            operation.handle(self._backend, call, response)
            return
        with share.room.places.held(who=who):
            given = values.get(AT_LEAST.name) if operation.of_store else None
            at_least = change_of(given) if given else None
            local = forwards and at_least is not None and self._answers_as_follower(request, at_least)
            if forwards and not local:
                if caller is not None and caller.certified:
                    # The leader could not verify it.
                    raise no_leader("agents with certificates are answered by the leader, and this replica is not it")
                if not self._relayed(operation, call, response):
                    self._forwarder.forward(operation, request, response, body, share)
                return
            if operation.confirmed and not operation.of_replica and not local:
                self._confirm(operation)
                if at_least is not None and not self._backend.knows(at_least):
                    raise unavailable(f"change {at_least} is not known here")
            if caller is not None and operation.role is Role.WRITE and not operation.of_host:
                # By whoever carries them out, so that a client has one quota at all replicas of a cluster.
                self._rates.count(caller, time.monotonic())
            request.context.of_store = not operation.of_replica
            operation.handle(self._backend, call, response)
            represent(
                request,
                response,
                self._loop.offload,
                tagged=operation.content_tagged,
                same_for_many=operation.same_for_many,
            )

    def _relayed(self, operation: Operation, call: Call, response: falcon.Response) -> bool:
        """Answer an agent by what the leader says to several of them; return whether it does."""
        request, seconds = call.request, call.values.get("wait", 0.0)
        if operation.relayed is None or request.get_header(FORWARDED) is not None:
            return False
        try:
            asked = operation.relayed(call)
            plan = self._relay.plan(asked, request.auth, seconds, call.gone, request.context.share)
        except NotRelayedError:
            return False
        if plan is None:
            response.status = HTTPStatus.NO_CONTENT if operation.body is not None else HTTPStatus.NOT_MODIFIED
        else:
            response.content_type, response.data = JSON, plan
        return True

    def _answers_as_follower(self, request: falcon.Request, at_least: ChangeNumber) -> bool:
        """Return whether a replica that does not lead answers by itself: it knows a change, now or soon."""
        return request.get_header(FORWARDED) is None and self._backend.knows(at_least)

    def _confirm(self, operation: Operation) -> None:
        """Check that what this replica knows is still what clients have been told.

        A leader that was stopped and goes on may not know yet that another one has answered them meanwhile.
        """
        try:
            leads = self._backend.confirms()
        except UnavailableError as error:
            kind = STORAGE if operation.role is Role.WRITE else UNAVAILABLE
            raise unavailable(error.reason, kind=kind) from None
        if not leads:
            raise no_leader("this replica no longer leads its cluster")

    def _caller(self, operation: Operation, request: falcon.Request, path: Mapping[str, str]) -> Caller | None:
        hosts = request.env.get(CLIENT_HOSTS, ()) if request.auth is None else ()
        try:
            caller = certified(hosts) if hosts else self._access.caller(request.auth)
        except ProblemError:
            if operation.open:
                return None
            raise
        gone = request.env.get(CLIENT_GONE, bool)
        if caller.role is Role.HOST:
            if operation.of_host and path["host"] in caller.hosts:
                return dataclasses.replace(caller, request_id=request.context.id, gone=gone)
            if operation.of_replicas and not caller.certified:
                # By the token of one of the agents whose requests it has; each is checked by itself.
                return dataclasses.replace(caller, request_id=request.context.id, gone=gone)
            if operation.open:
                return None
            raise beyond_scope(
                f"{'the ' if caller.certified else 'token '}{caller.name} is that of the agent of host "
                f"{', '.join(caller.hosts[:MOST_NAMED])}, which reads and reports only itself"
            )
        if operation.role is Role.WRITE and not caller.may_write:
            raise beyond_scope(f"the role of token {caller.name} is read")
        if operation.role is Role.WRITE and caller.tenant is not None and not operation.of_tenant:
            raise beyond_scope(
                f"token {caller.name} is that of tenant {caller.tenant}, which changes nothing but its jobs"
            )
        if operation.role is Role.WRITE and not operation.of_host:
            # A report is no change that anybody is named for, and looking up a user takes long with many connections.
            caller = _named(caller, request)
        reason = request.get_header(REASON.name, default="").strip()
        return dataclasses.replace(caller, reason=reason, request_id=request.context.id, gone=gone)

    def _body(self, operation: Operation, request: falcon.Request, share: Share) -> bytes:
        assert operation.body is not None
        check_content(request)
        length = request.get_header("Content-Length", default="0").strip("0")
        if operation.body.optional and not length and request.get_header("Transfer-Encoding") is None:
            return b""
        with share.room.bodies.held(who=share.who):
            body: bytes = request.env["wsgi.input"].read_body(operation.body.most_bytes, share.take_bytes)
            return body


def _request_id(request: falcon.Request) -> str:
    """Return the id that the client gave to its request, if it can be one, else a new one."""
    given = request.get_header(REQUEST_ID, default="")
    return given if _ID.fullmatch(given) else secrets.token_hex(8)


def _named(caller: Caller, request: falcon.Request) -> Caller:
    """Return the caller of a change with the name of its user, if it has no token and runs on this machine.

    Where the request was passed on, the connection is that of a proxy or of another replica, so nothing is known.
    """
    if caller != ANONYMOUS or any(request.get_header(name) is not None for name in _PASSED_ON):
        return caller
    ends = [request.env.get(name, "") for name in ("REMOTE_ADDR", "REMOTE_PORT", "SERVER_PORT")]
    name = user_of_client(*ends)
    return caller if name is None else dataclasses.replace(caller, name=name)


def _parameters(operation: Operation, request: falcon.Request) -> dict[str, Any]:
    """Read query and header parameters. An unknown parameter in the query, or one given twice, is an error."""
    declared = (*operation.parameters, *header_parameters(operation))
    known = [parameter.name for parameter in declared if parameter.place == "query"]
    for name, value in request.params.items():
        if name not in known:
            expected = f"expected {', '.join(known)}" if known else "this operation has none"
            raise bad_input(f"unknown query parameter; {expected}", field=name, value=value)
        if not isinstance(value, str):
            raise bad_input("query parameter is given more than once", field=name, value=value[-1])
    values = {}
    for parameter in declared:
        given = request.params.get(parameter.name) if parameter.place == "query" else request.get_header(parameter.name)
        if given is not None:
            values[parameter.name] = parameter.read(str(given))
        elif parameter.required:
            raise bad_input(f"{parameter.place} parameter is missing", field=parameter.name)
    return values


def check_content(request: falcon.Request) -> None:
    """Check that a body is JSON. A body without a declared type is taken for JSON, except in a POST.

    A page of another origin can have a browser send a POST without a preflight, if its type is missing or one of a
    form's (Fetch, "CORS-safelisted request-header"). No other method that changes something is sent so.

    Raises:
        ProblemError: 415.
    """
    if request.method == "POST" and not request.content_type:
        raise _unsupported("a POST requires Content-Type: application/json, with a body or without")
    media_type, parameters = falcon.parse_header(request.content_type or "")
    if media_type and not _JSON_TYPE.fullmatch(media_type):
        raise _unsupported("the body must be JSON: send Content-Type: application/json")
    if parameters.get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
        raise _unsupported("JSON is UTF-8 (RFC 8259, section 8.1)")
    if request.get_header("Content-Encoding", default="identity").strip().lower() not in ("", "identity"):
        raise _unsupported("the body must not be compressed", accept_encoding="identity")


def _unsupported(detail: str, accept_encoding: str = "") -> ProblemError:
    headers = {"Accept-Encoding": accept_encoding} if accept_encoding else {"Accept": JSON}
    return ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail, headers=headers)
