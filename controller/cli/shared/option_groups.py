"""Options that many commands share: a parameter of a group's type stands for all options of the group."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

import typer

_CONTEXT = "_context"

Group = TypeVar("Group")


def with_groups(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters that are option groups are replaced by the options of the groups.

    An option group is a dataclass whose fields are options (``Annotated[type, typer.Option(...)]``) with defaults.
    Options given before the name of a subcommand hold for the subcommand, unless they are given again behind it.
    """
    signature = inspect.signature(function, eval_str=True)
    groups = {name: one.annotation for name, one in signature.parameters.items() if _is_group(one.annotation)}
    parameters = [one for name, one in signature.parameters.items() if name not in groups]
    options = {name: _options(group) for name, group in groups.items()}
    parameters += [option for some in options.values() for option in some]
    own_context = next((one.name for one in parameters if one.annotation is typer.Context), None)
    if own_context is None:
        parameters.append(_parameter(_CONTEXT, typer.Context, inspect.Parameter.empty))

    @functools.wraps(function)
    def command(**given: Any) -> None:
        context = given[own_context] if own_context is not None else given.pop(_CONTEXT)
        for name, group in groups.items():
            for option in options[name]:
                del given[option.name]
            given[name] = chosen(context, group)
        function(**given)

    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def chosen(context: typer.Context, group: type[Group]) -> Group:
    """Return an option group with the values that the command line gives, outside or behind a subcommand's name."""
    # mypy takes the classes of a type variable for not hashable.
    hashable: Any = group
    return group(**{option.name: _innermost(context, option.name, option.default) for option in _options(hashable)})


def was_given(context: typer.Context, option: str) -> bool:
    """Return whether the command line has this option, by the name of its parameter."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def _is_group(annotation: Any) -> bool:
    return inspect.isclass(annotation) and dataclasses.is_dataclass(annotation)


@functools.cache
def _options(group: Any) -> tuple[inspect.Parameter, ...]:
    """Return the options of a group, of which most are those of several commands: reading their types takes long."""
    hints = get_type_hints(group, include_extras=True)
    return tuple(_parameter(field.name, hints[field.name], field.default) for field in dataclasses.fields(group))


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _innermost(context: typer.Context, option: str, default: Any) -> Any:
    """Return the value that the command line gives nearest to its end, else the default."""
    at: Any = context
    while at is not None:
        if option in at.params and was_given(at, option):
            return at.params[option]
        at = at.parent
    return default
