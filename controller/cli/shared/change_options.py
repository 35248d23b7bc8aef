"""The option that all commands share which change something at a running controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer


@dataclass(frozen=True)
class ChangeOptions:
    """What a command says of its change; ``None`` if not given."""

    reason: Annotated[
        str | None,
        typer.Option(
            "--reason",
            metavar="TEXT",
            help="Why, such as the number of a change request; it is in the history, in events and in the log.",
            show_default=False,
        ),
    ] = None
