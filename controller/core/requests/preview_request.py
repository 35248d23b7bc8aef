"""A change to try without making it, as an interface reads it from a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.model.choices.enforcement import Mode
from controller.workload.expand import JobTraffic


@dataclass(frozen=True)
class PreviewRequest:
    """The changes to be previewed together, on top of the desired state.

    Attributes:
        put: job documents, each with its name; ``delete``: names of jobs.
        drain, undrain: ids of cables, switches and pods.
        policy, seed, mode, enforcement: ``None``: as they are.
    """

    put: tuple[Mapping[str, Any], ...] = ()
    delete: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    undrain: tuple[str, ...] = ()
    policy: str | None = None
    seed: int | None = None
    mode: Mode | None = None
    enforcement: str | None = None


@dataclass(frozen=True, eq=False)
class ExpandedPreview:
    """A request, and (name, document, flows) of each job that it would put."""

    request: PreviewRequest
    jobs: tuple[tuple[str, bytes, JobTraffic], ...]


ReadPreview = Callable[[bytes], PreviewRequest]
"""Reads the body of a request, and raises ``InputError`` where it is wrong. It is a module-level function, since large
bodies are read in another process."""
