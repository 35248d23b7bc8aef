"""How operations answer: the steps between the port and the response that they share."""

from __future__ import annotations

from collections.abc import Callable

import falcon
import orjson
from pydantic import BaseModel

from controller.core.ports.api import Backend, Document, JobAnswer, etag
from controller.rest import schemas
from controller.rest.forms import read_form
from controller.rest.operation import JSON, Call, Operation


def answer_document(response: falcon.Response, document: Document) -> None:
    """Write a document into a response."""
    encoded = document if isinstance(document, bytes) else orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    response.content_type, response.data = JSON, encoded


def answer_job(response: falcon.Response, job: JobAnswer) -> None:
    """Write a job and the ETag of its revision into a response."""
    answer_document(response, job.document)
    response.etag = etag(job.revision)


def answering(ask: Callable[[Backend, Call], Document]) -> Callable[[Backend, Call, falcon.Response], None]:
    """Make a handler whose response is a document."""
    return lambda backend, call, response: answer_document(response, ask(backend, call))


def reading(
    id: str, ask: Callable[[Backend], Document], summary: str, model: type[BaseModel], *, of_store: bool = False
) -> Operation:
    """Declare a GET without parameters."""
    return Operation(id, answering(lambda backend, _call: ask(backend)), summary, {200: model}, of_store=of_store)


def refuse_members(body: bytes) -> None:
    """Check the body of an operation that needs none: it is absent or an empty object.

    Raises:
        InputError: it is anything else.
    """
    if body:
        read_form(body, schemas.EmptyForm)
