"""Training scripts: whether they can run here, and the lines by which they report their steps."""

from __future__ import annotations

import ast
import importlib.util
import json
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from controller.model.errors import InputError

FIELD = "--script"
EXTRA = ("jax", "mpi4py")
"""Packages of the extra ``training``."""


@dataclass(frozen=True)
class StepLine:
    """What a rank reports of one step.

    Attributes:
        step: its number, from 0.
        seconds: its duration.
        loss: of the model; ``None``: not said.
    """

    step: int
    seconds: float
    loss: float | None = None


def step_line(line: str) -> StepLine | None:
    """Return the step that a line of output reports; ``None`` for any other line.

    Such a line is a JSON object with a whole number ``step`` and a number ``seconds``; ``loss`` is optional.
    """
    if not line.lstrip().startswith("{"):
        return None
    try:
        values = json.loads(line)
        step, seconds, loss = values["step"], values["seconds"], values.get("loss")
    except (ValueError, KeyError):
        return None
    if type(step) is not int or not _is_number(seconds) or not (loss is None or _is_number(loss)):
        return None
    return StepLine(step, float(seconds), None if loss is None else float(loss))


@dataclass(frozen=True)
class Script:
    """A script that can run here.

    Attributes:
        command: of a rank.
        uses_mpi: whether it uses MPI, so that ``MPIRUN`` starts its ranks.
    """

    command: tuple[str, ...]
    uses_mpi: bool = False


MPIRUN, MPI_PACKAGE = "mpirun", "mpi4py"
"""The program that starts the ranks of a script that imports the package, anywhere in it."""


def script_of(text: str) -> Script:
    """Return a script and its arguments, which are written as in a shell.

    Raises:
        InputError: there is no such file, it is no Python, or a package or a program that it needs is not installed.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(str(error), field=FIELD, value=text) from None
    if not words:
        raise InputError("names no file", field=FIELD, value=text)
    path = Path(words[0])
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError(error.strerror or str(error), field=FIELD, value=words[0]) from None
    except (SyntaxError, ValueError) as error:
        raise InputError(f"is no Python: {error}", field=FIELD, value=words[0]) from None
    uses_mpi = MPI_PACKAGE in set(_imported(list(ast.walk(tree))))
    for package in dict.fromkeys([*_imported(tree.body), *([MPI_PACKAGE] if uses_mpi else ())]):
        if not _is_installed(package, path.parent):
            with_extra = " 'fairspine[training]' (make setup-training does)" if package in EXTRA else f" {package}"
            raise InputError(
                f"imports {package}, which is not installed: pip install{with_extra}", field=FIELD, value=words[0]
            )
    if uses_mpi and shutil.which(MPIRUN) is None:
        reason = f"imports {MPI_PACKAGE}, which needs OpenMPI: apt-get install openmpi-bin (make setup-training does)"
        raise InputError(reason, field=FIELD, value=words[0])
    return Script((sys.executable, str(path.resolve()), *words[1:]), uses_mpi)


def _imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the packages that some statements import; those at the top level of a module are, wherever it is run."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _is_installed(package: str, folder: Path) -> bool:
    """Return whether a script in a folder finds a package: beside itself, or where Python looks."""
    beside = (folder / f"{package}.py").is_file() or (folder / package).is_dir()
    return beside or importlib.util.find_spec(package) is not None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
