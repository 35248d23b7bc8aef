"""What texts of help say of policies: importing their registry takes longer than help may take."""

from typing import Annotated

import typer

POLICIES_TEXT = "'fairspine policies' lists them"

ScenarioPolicies = Annotated[
    str | None,
    typer.Option(
        "--policies",
        help=f"Policies, separated by commas; {POLICIES_TEXT}.  [default: the scenario's]",
        show_default=False,
    ),
]
"""The option of commands that take a scenario, which names policies of its own."""
