"""Options of policies as text: ``max_splits=16``."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from pydantic import TypeAdapter, ValidationError

from controller.model.errors import InputError
from controller.routing.base import Options

NAMES = tuple(option.name for option in fields(Options))

_FORM = TypeAdapter(Options)


def parse_options(settings: Sequence[str]) -> Options:
    """Parse options from ``name=value`` texts; the others keep their defaults, and an empty value means ``None``.

    >>> parse_options(["max_splits=16", "churn_price=0.1"]).max_splits
    16

    Raises:
        InputError: no option has that name, one is given twice, or the value is invalid for it.
    """
    given: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = (part.strip() for part in setting.partition("="))
        if not equals:
            raise InputError("must be like max_splits=16", field="option", value=setting)
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(NAMES)}"
            raise InputError(f"no policy has an option of this name{hint}", field="option", value=name)
        if name in given:
            raise InputError("is given twice", field=f"option {name}")
        given[name] = value or None
    try:
        options = _FORM.validate_python(given)
    except ValidationError as error:
        wrong = error.errors()[0]
        name = str(wrong["loc"][0])
        reason = wrong["msg"][:1].lower() + wrong["msg"][1:]
        raise InputError(reason, field=f"option {name}", value=given[name]) from None
    for name in ("rounds", "max_splits", "churn_price", "annealing_rounds", "seconds", "nodes"):
        value = getattr(options, name)
        # "not >=" and not "<": NaN compares false with everything.
        if value is not None and not value >= 0:
            raise InputError("must be at least 0", field=f"option {name}", value=given[name])
    return options
