"""Parsing of the body of ``POST /v1/preview`` into the core's ``PreviewRequest``."""

from __future__ import annotations

from controller.core.preview_request import PreviewRequest
from controller.rest.forms import read_form
from controller.rest.schemas import PreviewForm


def read_preview(body: bytes) -> PreviewRequest:
    """Return the change that a body asks to try.

    Raises:
        InputError: with an empty ``field``, the body is no JSON object; else that field is wrong.
    """
    form = read_form(body, PreviewForm)
    return PreviewRequest(
        put=tuple(form.put),
        delete=tuple(form.delete),
        drain=tuple(form.drain),
        undrain=tuple(form.undrain),
        policy=form.policy,
        seed=form.seed,
        mode=form.mode,
    )
