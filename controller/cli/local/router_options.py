"""What several commands have in common that write a file for each switch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.shared.files import write_files, write_text
from controller.model.errors import InputError

InterfaceOption = Annotated[
    str | None,
    typer.Option(
        "--interface",
        metavar="TEXT",
        help="Names of interfaces that the fabric file lacks, with {switch} and {port}; default: the usual ones.",
        show_default=False,
    ),
]
SwitchOption = Annotated[
    str | None, typer.Option("--switch", metavar="NAME", help="Only this switch.", show_default=False)
]
FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Folder for the files, one a switch; needed without --switch.",
        show_default=False,
    ),
]


def check_place(switch: str | None, out: Path | None) -> None:
    """Check that files have a folder, or that one switch is chosen, whose text is printed.

    Raises:
        InputError: neither is given.
    """
    if out is None and switch is None:
        raise InputError("give a folder, or a switch by --switch", field="--out")


def write_by_switch(texts: Mapping[str, str], links: str, suffix: str, switch: str | None, out: Path | None) -> None:
    """Write the text of each switch, or of one, to a folder, or print that of one switch.

    Args:
        texts: by the names of switches.
        links: what a switch without a text lacks, in words.
        suffix: of the files.
        switch: the only one; ``None``: all.
        out: the folder; ``None``: print.

    Raises:
        InputError: the switch has no text, or a file cannot be written.
    """
    if switch is not None and switch not in texts:
        raise InputError(f"no switch with {links} has this name", field="--switch", value=switch)
    if out is not None:
        made = ((name, text) for name, text in texts.items() if switch in (None, name))
        write_files(out, ((f"{name}{suffix}", text.encode()) for name, text in made))
    else:
        assert switch is not None
        write_text(None, [texts[switch]])
