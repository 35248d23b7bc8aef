"""Wrong values of options: typer says neither which value is wrong nor, in one line, what is expected."""

from __future__ import annotations

from typing import Final

import typer

from controller.model.errors import InputError

UsageError: Final[type[Exception]] = typer.BadParameter.__bases__[0]
"""The base class of the errors that typer raises for wrong command lines; it exports only ``BadParameter`` of them."""


def as_input_error(error: Exception) -> InputError | None:
    """Return the error that names the option, its value and what is wrong with it; ``None`` if typer names them itself.

    Args:
        error: what typer has raised; pydantic, which it lets check values, is the cause of some.
    """
    # Commands that need no pydantic should not wait for its import.
    cause = error.__cause__
    if cause is None or type(cause).__name__ != "ValidationError":
        return None
    from controller.model.files.fabric_file import from_validation_error

    wrong = from_validation_error(cause)  # type: ignore[arg-type]
    param = error.param  # type: ignore[attr-defined]
    names = [name for name in param.opts if name.startswith("--")]
    # Of a choice, typer says the value once more.
    reason = wrong.reason.removeprefix(f"{wrong.value!r} ").removesuffix(".")
    return InputError(reason, field=names[0] if names else param.name.upper(), value=wrong.value)
