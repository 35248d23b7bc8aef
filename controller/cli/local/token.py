"""``fairspine token``: the access tokens of a controller's HTTP interface."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.connection.config_file import config_folder
from controller.cli.shared.command_error import CommandError
from controller.cli.shared.option_groups import with_groups
from controller.cli.shared.output import Printer, plural
from controller.core.caller import Quota, Role
from controller.model.errors import InputError
from controller.rest.security.tokens import MOST_OF_QUOTA, Token, new_token, read_tokens
from controller.whole_file import replace_private

HEADER = "# fairspine's tokens: name, role and hash of the secret. 'fairspine token' adds and removes them.\n"

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the token.", show_default=False)]
RoleOption = Annotated[
    Role, typer.Option("--role", help="The role of the token; write includes read; host: of the agent of one host.")
]
HostOption = Annotated[
    str | None,
    typer.Option(
        "--host", metavar="HOST", help="With --role host: the name of the host in the fabric file.", show_default=False
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        min=0,
        max=MOST_OF_QUOTA,
        help="With --role write: jobs that the token may have stored at a time.  [default: no limit of its own]",
        show_default=False,
    ),
]
ChangesOption = Annotated[
    int | None,
    typer.Option(
        "--changes",
        metavar="N",
        min=0,
        max=MOST_OF_QUOTA,
        help="With --role write: changes that the token may request in a minute.  [default: no limit of its own]",
        show_default=False,
    ),
]
TenantOption = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        metavar="TENANT",
        help="With --role write: the token may change the jobs of this tenant of the fabric file, and nothing else.",
        show_default=False,
    ),
]
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--file",
        envvar="FAIRSPINE_TOKENS_FILE",
        metavar="FILE",
        help="The token file of the controller (its option 'tokens').  [default: tokens in the user's config folder]",
        show_default=False,
    ),
]

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Add, list and remove the tokens of a controller, which reads the file again after a change.",
    epilog="Example: fairspine token add slurm --role write --file /etc/fairspine/tokens",
)


@app.command("add", epilog="Example: fairspine token add slurm --role write --file /etc/fairspine/tokens")
def add(
    name: NameArgument,
    role: RoleOption,
    host: HostOption = None,
    jobs: JobsOption = None,
    changes: ChangesOption = None,
    tenant: TenantOption = None,
    file: FileOption = None,
) -> None:
    """Add a token and print its secret, which is not stored and cannot be shown again."""
    path = _path_to_change(file)
    token, secret = new_token(name, role, host, Quota(jobs, changes), tenant)
    with _changing(path) as tokens:
        if any(old.name == name for old in tokens):
            raise InputError("a token of this name exists; remove it first", field="name", value=name)
        _write(path, (*tokens, token))
    typer.echo(secret)
    may = (
        f"may {role}{'' if tenant is None else f' jobs of tenant {tenant}'}"
        if host is None
        else f"is the agent of host {host}"
    )
    typer.echo(f"fairspine: {name} {may} now, with the secret above, which is shown only once ({path})", err=True)


@app.command("list", epilog="Example: fairspine token list --file /etc/fairspine/tokens")
@with_groups
def list_tokens(file: FileOption = None, *, output: Printer) -> None:
    """List the tokens; secrets cannot be shown."""
    path = _path(file)
    tokens = read_tokens(path)
    if not output.is_table:
        output.document(
            {
                "tokens": [
                    {"name": t.name, "role": t.role}
                    | ({"host": t.host} if t.host else {})
                    | _limits(t.quota)
                    | ({"tenant": t.tenant} if t.tenant else {})
                    for t in tokens
                ]
            }
        )
    else:
        limited = any(_limits(t.quota) for t in tokens)
        tenants = any(t.tenant for t in tokens)
        output.table(
            f"{plural(len(tokens), 'token')} in {path}",
            ("token", "role", *(("jobs>", "changes a minute>") * limited), *(("tenant",) * tenants)),
            (
                (
                    t.name,
                    f"{t.role} {t.host}" if t.host else t.role,
                    *((_limit(t.quota.jobs), _limit(t.quota.changes)) * limited),
                    *((t.tenant or "-",) * tenants),
                )
                for t in tokens
            ),
        )


def _limits(quota: Quota) -> dict[str, int]:
    """Return the limits of a quota that there are, for JSON."""
    limits = {"jobs": quota.jobs, "changes": quota.changes}
    return {name: limit for name, limit in limits.items() if limit is not None}


def _limit(limit: int | None) -> str:
    return "-" if limit is None else str(limit)


@app.command("remove", epilog="Example: fairspine token remove slurm --file /etc/fairspine/tokens")
def remove(name: NameArgument, file: FileOption = None) -> None:
    """Remove a token; its secret is refused from then on."""
    path = _path_to_change(file)
    with _changing(path) as tokens:
        left = tuple(token for token in tokens if token.name != name)
        if len(left) == len(tokens):
            raise CommandError(f"{path}: no token has the name {name}")
        _write(path, left)
    typer.echo(f"{name} removed")


def _path(file: Path | None) -> Path:
    return file or config_folder() / "tokens"


def _path_to_change(file: Path | None) -> Path:
    """Return the file to change, in the config folder, which is made, unless one is given.

    Raises:
        InputError: the folder of the given file does not exist, or the config folder cannot be made.
    """
    path = _path(file)
    if file is None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(error.strerror or str(error), source=str(path.parent)) from None
    elif not path.parent.exists():
        raise InputError(
            f"the folder {path.parent} does not exist: make it first, or correct the name", source=str(path)
        )
    return path


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[tuple[Token, ...]]:
    """Lock the file against other changes and yield its tokens.

    Raises:
        InputError: the folder cannot be read, or the file has no valid tokens.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise InputError(error.strerror or str(error), source=str(path.parent)) from None
    try:
        # Lock the folder, since each change replaces the file.
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield read_tokens(path) if path.exists() else ()
    finally:
        os.close(folder)


def _write(path: Path, tokens: tuple[Token, ...]) -> None:
    """Replace the file by one with these tokens.

    Raises:
        InputError: the file cannot be written.
    """
    replace_private(path, HEADER + "".join(f"{token.line()}\n" for token in tokens))
