"""``fairspine context``: the controllers of the user's config file."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.connection.config_file import config_file, matching_contexts, read_config, use_context, used_context
from controller.cli.shared.option_groups import with_groups
from controller.cli.shared.output import Printer, plural

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="List the controllers of the config file, and choose the one that commands use.",
)


@app.command("list", epilog="Example: fairspine context list")
@with_groups
def list_contexts(*, output: Printer) -> None:
    """List the contexts: named controllers of the config file. The one in use has a star."""
    used = used_context()
    rows = [
        {"name": name, "url": one.url, "token": one.has_token, "used": name == used}
        for name, one in read_config().contexts.items()
    ]
    if not output.is_table:
        output.document({"contexts": rows})
        return
    output.table(
        f"{plural(len(rows), 'context')} in {config_file()}",
        ("", "context", "url", "token"),
        (
            ("*" if row["used"] else "", str(row["name"]), str(row["url"]), "yes" if row["token"] else "no")
            for row in rows
        ),
        shorten=("url",),
    )


@app.command("use", epilog="Example: fairspine context use lab")
def use(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="The context; without one, the settings at the top of the file.",
            show_default=False,
            autocompletion=matching_contexts,
        ),
    ] = None,
) -> None:
    """Choose the context that commands use from now on, unless --context, --url or the environment name another."""
    if name is None:
        use_context(None)
        typer.echo("commands use the settings at the top of the config file")
        return
    chosen = read_config().named(name, "NAME")
    use_context(name)
    typer.echo(f"commands use context {name}, {chosen.url}")
