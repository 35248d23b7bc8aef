"""Parsing of the bodies of ``POST /v1/plans:preview`` and ``POST /v1/plans:survive`` into the core's requests."""

from __future__ import annotations

from controller.core.ports.api import BodyReaders
from controller.core.preview_request import PreviewRequest
from controller.core.survival_request import SurvivalRequest
from controller.rest.forms import read_form
from controller.rest.schemas import PreviewForm, SurvivalForm


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


def read_survival(body: bytes) -> SurvivalRequest:
    """Return the failures that a body asks to analyse.

    Raises:
        InputError: with an empty ``field``, the body is no JSON object; else that field is wrong.
    """
    form = read_form(body, SurvivalForm)
    return SurvivalRequest(kinds=tuple(form.kinds), pairs=form.pairs, above=form.above)


READERS = BodyReaders(read_preview, read_survival)
