"""The ``fairspine`` command. Commands import heavy modules when they run, to keep the start-up time short."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer

from controller.cli import (
    drain,
    emulate,
    events,
    exporting,
    history,
    importing,
    job,
    jobs,
    learned,
    mode,
    network,
    planning,
    preview,
    replay,
    schedule,
    simulate,
    status,
    survive,
    token,
    top,
    trace,
)
from controller.cli.command_error import CommandError
from controller.model.errors import InputError, one_line

app = typer.Typer(
    name="fairspine",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(
    "plan",
    epilog="Example: fairspine plan --fabric examples/clos-4x4x4.yaml --job examples/gpt3-a.json, "
    "or: fairspine plan --live",
)(planning.plan)
app.command(
    "compare",
    epilog="Example: fairspine compare --fabric examples/clos-4x4x4.yaml --job examples/gpt3-a.json "
    "--policies ecmp,greedy",
)(planning.compare)
app.command(
    "survive",
    epilog="Example: fairspine survive --fabric examples/clos-4x4x4.yaml --job examples/gpt3-a.json "
    "--job examples/llama-b.json --above 0.4",
)(survive.survive)
app.command(
    "simulate",
    epilog="Example: fairspine simulate --scenario examples/scenarios/demo.yaml --policies ecmp,fair",
)(simulate.simulate)
app.command(
    "replay",
    epilog="Example: fairspine replay goal examples/goal/two-layers.goal --fabric examples/clos-4x4x4.yaml",
)(replay.replay)
app.command(
    "emulate",
    epilog="Example: fairspine emulate --fabric examples/clos-4x4x4.yaml --job examples/gpt3-a.json "
    "--job examples/llama-b.json",
)(emulate.emulate)
app.command(
    "import",
    epilog="Example: fairspine import nccl rank*.log --fabric fabric.yaml --inventory nics.yaml --out job.json",
)(importing.import_files)
app.command("push", epilog="Example: fairspine push examples/gpt3-a.json --wait")(jobs.push)
app.command("preview", epilog="Example: fairspine preview --put examples/gpt3-a.json --drain spine2")(preview.preview)
app.command(
    "trace",
    epilog="Example: fairspine trace --differs, or: fairspine trace --fabric examples/clos-4x4x4.yaml "
    "--job examples/gpt3-a.json --policy ecmp",
)(trace.trace)
app.command("schedule", epilog="Example: fairspine schedule gpt3-a --format json")(schedule.schedule)
app.command("drain", epilog="Example: fairspine drain leaf1-spine2")(drain.drain)
app.command("undrain", epilog="Example: fairspine undrain leaf1-spine2")(drain.undrain)
app.command("mode", epilog="Example: fairspine mode ecmp")(mode.mode)
app.command("events", epilog="Example: fairspine events --kind plan --format json")(events.events)
app.command("status", epilog="Example: fairspine status")(status.status)
app.command("fabric", epilog="Example: fairspine fabric --format json")(network.fabric)
app.command("links", epilog="Example: fairspine links leaf1, or: fairspine links leaf1-spine2")(network.links)
app.command("routes", epilog="Example: fairspine routes h1")(network.routes)
app.command("top", epilog="Example: fairspine top --interval 5, or: fairspine top --once")(top.top)
app.add_typer(history.app, name="history")
app.add_typer(exporting.app, name="export")
app.add_typer(job.app, name="job")
app.add_typer(jobs.app, name="jobs")
app.add_typer(learned.app, name="learned")
app.add_typer(token.app, name="token")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fairspine {version('fairspine')}")
        raise typer.Exit


@app.callback(epilog="Example: fairspine plan --help")
def _fairspine(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Max-min fair routing for machine-learning training fabrics."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit with its code: 0 done, 1 failed, 2 invalid input."""
    code: str | int | None = 0
    try:
        app(args=arguments)
    except SystemExit as end:
        code = end.code
    except InputError as error:
        _complain(error)
        code = 2
    except CommandError as failure:
        _complain(failure)
        code = failure.exit_code
    except OSError as error:
        _complain_of_output(error)
        code = 1
    try:
        sys.stdout.flush()
    except OSError as error:
        _complain_of_output(error)
        # Python flushes once more at exit, and would report the error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


def _complain_of_output(error: OSError) -> None:
    """Report an error of standard output, such as a full disk; ignore a closed pipe."""
    if not isinstance(error, BrokenPipeError):
        typer.echo(f"fairspine: standard output cannot be written: {error.strerror or error}", err=True)


def _complain(error: Exception) -> None:
    typer.echo(f"fairspine: {one_line(str(error))}", err=True)


if __name__ == "__main__":
    main()
