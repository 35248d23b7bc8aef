"""A registry of values by name: the built-in ones, and those of other distributions, found by entry point.

A distribution registers a value under the registry's group of entry points. The entry point's object is the value, and
the value's ``name`` is the entry point's. It is loaded at the first look-up and not when the registry is made, since
the plug-in imports the package of the registry itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, TypeVar

from controller.model.errors import InputError


class Named(Protocol):
    """A value with a name."""

    @property
    def name(self) -> str:
        """The name under which a registry has it."""
        ...


Value = TypeVar("Value", bound=Named)


class PluginRegistry(Mapping[str, Value]):
    """Values by name: the built-in ones, then plug-ins in order of their names.

    A plug-in that cannot be used is left out; ``named`` gives the reason. A broken plug-in does not affect others.
    """

    def __init__(
        self,
        kind: type[Value],
        group: str,
        built_in: Mapping[str, Value],
        points: Iterable[EntryPoint] | None = None,
    ) -> None:
        """Create the registry; entry points are loaded at the first look-up.

        Args:
            kind: the type of the values; its name in lower case is the word that errors use.
            group: the group of the entry points.
            built_in: the built-in values by name.
            points: the entry points; ``None``: those of the installed distributions.
        """
        self._kind, self._group, self._built_in, self._points = kind, group, built_in, points
        self._values: dict[str, Value] | None = None
        self._failures: dict[str, str] = {}

    def named(self, name: str, *, field: str = "") -> Value:
        """Return the value of this name.

        Args:
            name: the name of the value.
            field: the field that an error names; empty: the word for the values.

        Raises:
            InputError: there is none, or it is a plug-in that cannot be used.
        """
        if name in self:
            return self[name]
        reason = self._failures.get(name, f"no {self._word} has this name; there are {', '.join(self)}")
        raise InputError(reason, field=field or self._word, value=name)

    def failures(self) -> Mapping[str, str]:
        """Return why plug-ins cannot be used, by their names."""
        self._all()
        return self._failures

    def __getitem__(self, name: str) -> Value:
        """Return the value of this name; ``KeyError`` if there is none."""
        # Finding a built-in value needs no search of the installed distributions.
        return self._built_in[name] if name in self._built_in else self._all()[name]

    def __contains__(self, name: object) -> bool:
        """Return whether a usable value has this name."""
        return name in self._built_in or name in self._all()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, the built-in ones first."""
        return iter(self._all())

    def __len__(self) -> int:
        """Return the number of usable values."""
        return len(self._all())

    @property
    def _word(self) -> str:
        return self._kind.__name__.lower()

    def _all(self) -> dict[str, Value]:
        if self._values is None:
            self._values = dict(self._built_in)
            points = entry_points(group=self._group) if self._points is None else self._points
            for point in sorted(points, key=lambda each: each.name):
                self._load(point, self._values)
        return self._values

    def _load(self, point: EntryPoint, values: dict[str, Value]) -> None:
        try:
            value = point.load()
        except Exception as error:  # A plug-in is third-party code: it may raise anything.
            self._failures[point.name] = f"the plug-in {point.value} cannot be loaded: {type(error).__name__}: {error}"
            return
        if not isinstance(value, self._kind):
            self._failures[point.name] = (
                f"the plug-in {point.value} is a {type(value).__name__}, not a fairspine.{self._kind.__name__}"
            )
        elif value.name != point.name:
            self._failures[point.name] = f"the plug-in {point.value} has the name {value.name!r}, not {point.name!r}"
        elif point.name not in values:
            values[point.name] = value
