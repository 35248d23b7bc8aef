"""Parsing of request bodies into the models of ``controller.rest.schemas``."""

from __future__ import annotations

from typing import TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from controller.model.errors import InputError
from controller.model.files.fabric_file import from_validation_error
from controller.model.files.nesting import check_nesting
from controller.model.files.unique_keys import check_unique

FormT = TypeVar("FormT", bound=BaseModel)


def read_form(body: bytes, form: type[FormT]) -> FormT:
    """Parse and check a body. Takes time in proportion to the body: parse large ones off the event loop.

    Raises:
        InputError: with an empty ``field``, the body is no JSON object; else that field is wrong.
    """
    try:
        document = orjson.loads(body)
    except ValueError as error:
        raise InputError(f"is not JSON: {error}") from None
    check_nesting(body, document)
    check_unique(body, document)
    if not isinstance(document, dict):
        raise InputError("must be a JSON object", value=document)
    try:
        return form.model_validate(document)
    except ValidationError as error:
        raise from_validation_error(error, document) from None
