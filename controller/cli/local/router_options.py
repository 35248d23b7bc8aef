"""The options that several commands have which write files for routers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
