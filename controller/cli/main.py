"""The ``fairspine`` command. Commands import heavy modules when they run, to keep the start-up time short."""

from __future__ import annotations

import copy
import functools
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer

from agent.circuits.command import circuit_agent
from agent.command import agent
from agent.ports.agent_command import port_agent
from agent.ports.command import probe_ports
from controller.cli.kubernetes.command import kubernetes
from controller.cli.live import (
    apply,
    cluster,
    context,
    drain,
    events,
    history,
    hosts,
    jobs,
    learned,
    learning,
    mode,
    network,
    preview,
    schedule,
    sightings,
    status,
    top,
    trace,
)
from controller.cli.local import (
    circuits,
    doctor,
    emulate,
    emulate_training,
    exporting,
    importing,
    job,
    planning,
    policies,
    referee,
    replay,
    simulate,
    survive,
    token,
    topology,
    warm_up,
)
from controller.cli.shared.command_error import CommandError
from controller.cli.shared.exit_codes import describe_exit_codes
from controller.cli.shared.option_groups import with_groups
from controller.cli.shared.usage import UsageError, as_input_error
from controller.garbage import rarely
from controller.model.errors import InputError, one_line

app = typer.Typer(
    name="fairspine",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_FILES = "--fabric examples/clos-4x4x4.yaml --job examples/gpt3-a.json"


def _add(name: str, function: Callable[..., None], example: str) -> None:
    """Add a command with an example below its help."""
    app.command(name, epilog=f"Example: {example}")(with_groups(function))


_add(
    "plan",
    planning.plan,
    "fairspine plan --fabric examples/clos-4x4x4.yaml --job examples/gpt3-a.json, or: fairspine plan --live",
)
_add(
    "compare",
    planning.compare,
    "fairspine compare --fabric examples/clos-4x4x4.yaml --job examples/gpt3-a.json --policies ecmp,greedy, or: "
    "fairspine compare --live",
)
_add("policies", policies.policies, "fairspine policies --format json")
_add(
    "survive",
    survive.survive,
    f"fairspine survive {_FILES} --job examples/llama-b.json --above 0.4, or: fairspine survive --live",
)
_add("simulate", simulate.simulate, "fairspine simulate --scenario examples/scenarios/demo.yaml --policies ecmp,fair")
_add("referee", referee.referee, "fairspine referee --scenario examples/scenarios/packets-2to1.yaml --quick")
_add("replay", replay.replay, "fairspine replay goal examples/goal/two-layers.goal --fabric examples/clos-4x4x4.yaml")
_add(
    "emulate",
    emulate.emulate,
    "fairspine emulate --fabric examples/clos-4x4x4.yaml --job examples/gpt3-a.json --job examples/llama-b.json",
)
_add(
    "emulate-training",
    emulate_training.emulate_training,
    "fairspine emulate-training --fabric examples/clos-4x4x4.yaml --job examples/training/gpt3-a.json "
    "--script examples/training/mlp.py",
)
_add(
    "topology",
    topology.topology,
    "fairspine topology --fabric examples/optical/sixteen.yaml --job examples/optical/all-to-all-16.json",
)
_add(
    "circuits",
    circuits.circuits,
    "fairspine circuits plan.json --panel ocs1=tcp:10.0.0.1:6654 --check",
)
_add(
    "import",
    importing.import_files,
    "fairspine import nccl rank*.log --fabric fabric.yaml --inventory nics.yaml --out job.json",
)
_add("push", jobs.push, "fairspine push examples/gpt3-a.json --wait")
_add("apply", apply.apply, "fairspine apply jobs.d --prune")
_add("diff", apply.diff, "fairspine diff jobs.d --prune")
_add("preview", preview.preview, "fairspine preview --put examples/gpt3-a.json --drain spine2")
_add(
    "trace",
    trace.trace,
    f"fairspine trace --differs, or: fairspine trace {_FILES} --policy ecmp",
)
_add("schedule", schedule.schedule, "fairspine schedule gpt3-a --format json")
_add("drain", drain.drain, "fairspine drain leaf1-spine2")
_add("undrain", drain.undrain, "fairspine undrain leaf1-spine2")
_add("mode", mode.mode, "fairspine mode ecmp")
_add("learning", learning.learning, "fairspine learning act")
_add(
    "sightings",
    sightings.sightings,
    "fairspine sightings --inspector nccl-inspector-4711 --nccl-log rank0.log --inventory nics.yaml --follow",
)
_add("kubernetes", kubernetes, "fairspine kubernetes --descriptions /etc/fairspine/jobs")
_add("events", events.events, "fairspine events --kind plan --format json")
_add("status", status.status, "fairspine status")
_add("doctor", doctor.doctor, "fairspine doctor --config-file etc/fairspine.conf")
_add("fabric", network.fabric, "fairspine fabric --format json")
_add("links", network.links, "fairspine links leaf1, or: fairspine links leaf1-spine2")
_add("routes", network.routes, "fairspine routes h1")
_add("hosts", hosts.hosts, "fairspine hosts --watch")
_add("top", top.top, "fairspine top --interval 5, or: fairspine top --once")
_add("agent", agent, "fairspine agent h1 --interface eth2 --url https://controller:8080")
_add("port-agent", port_agent, "fairspine port-agent h1 --url https://controller:8080")
_add("circuit-agent", circuit_agent, "fairspine circuit-agent h1 --url https://controller:8080")
_add("probe-ports", probe_ports, "fairspine probe-ports probes/h1.json --format json")
_add("warm-up", warm_up.warm_up, "fairspine warm-up")
app.add_typer(cluster.app, name="cluster")
app.add_typer(context.app, name="context")
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


def described_program(only: str | None = None) -> Any:
    """Return what ``app`` makes of all commands, with their exit codes in their help.

    ``only``: the name of a command that is the only one needed; others take longer than most commands run.
    """
    program: Any = typer.main.get_command(app if only is None else _with_one(only))
    describe_exit_codes(program)
    return program


def _with_one(name: str) -> typer.Typer:
    """Return ``app`` with a single command, or group of commands."""
    one = copy.copy(app)
    one.registered_commands = [command for command in app.registered_commands if command.name == name]
    one.registered_groups = [group for group in app.registered_groups if group.name == name]
    return one


@functools.cache
def _command(first: str) -> Any:
    """Return what ``app`` makes of the command that the first argument names, or of all where it names none."""
    names = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    return described_program(first if first in names else None)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit with its code (``controller.cli.shared.exit_codes``)."""
    code: str | int | None = 0
    given = sys.argv[1:] if arguments is None else arguments
    rarely()
    try:
        command = _command(given[0] if given else "")
        code = command(args=_present(given), prog_name="fairspine", standalone_mode=False) or 0
    except SystemExit as end:
        code = end.code
    except UsageError as error:
        _complain_of_usage(error)
        code = 2
    except typer.Abort:
        typer.echo("Aborted!", err=True)
        code = 1
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


def _complain_of_usage(error: Any) -> None:
    """Report an error of the command line: a wrong value in one line with it, anything else as typer does."""
    wrong = as_input_error(error)
    if wrong is None:
        error.show()
    else:
        _complain(wrong)


RENAMED = {
    "emulate": {"--mode": "--enforcement"},
    "job": {"--job": "", "--method": "--placement"},
    "simulate": {"--jobs": "--workers"},
}
"""Former names of options, by command; the value of one without a name is an argument now."""


def _present(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with the present names of options, and tell of each that has changed."""
    former = RENAMED.get(arguments[0], {}) if arguments else {}
    names = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name not in former:
            names.append(argument)
        elif former[name]:
            typer.echo(f"fairspine: {name} is called {former[name]} now", err=True)
            names.append(former[name] + equals + value)
        else:
            typer.echo(f"fairspine: {name} is not needed any more: name the file alone", err=True)
            names += [value] if equals else []
    return names


def _complain_of_output(error: OSError) -> None:
    """Report an error of standard output, such as a full disk; ignore a closed pipe."""
    if not isinstance(error, BrokenPipeError):
        typer.echo(f"fairspine: standard output cannot be written: {error.strerror or error}", err=True)


def _complain(error: Exception) -> None:
    typer.echo(f"fairspine: {one_line(str(error))}", err=True)


if __name__ == "__main__":
    main()
