"""Kernels that are compiled, and fabrics of several planes."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import numpy as np

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.routing import kernels


def kernel_modules() -> list[ModuleType]:
    """Return the modules of kernels, in every folder."""
    return [
        importlib.import_module(each.name)
        for each in pkgutil.walk_packages(kernels.__path__, "controller.routing.kernels.")
    ]


def compiled() -> dict[str, int]:
    """How many signatures each kernel is compiled for."""
    return {
        f"{module.__name__}.{name}": len(kernel.nopython_signatures)
        for module in kernel_modules()
        for name, kernel in vars(module).items()
        if hasattr(kernel, "nopython_signatures")
    }


def plane_fabric(rng: np.random.Generator, *, tiers: bool) -> Fabric:
    """A fabric of several planes, some cables down."""
    if tiers:
        fabric = pod_clos(2, 2, int(rng.integers(1, 3)), int(rng.integers(1, 3)), 2, planes=2)
    else:
        fabric = clos(int(rng.integers(1, 4)), 3, 2, planes=2)
    down = rng.random(len(fabric.cables)) < 0.05
    return fabric.without_links([name for name, gone in zip(fabric.cable_names, down, strict=True) if gone])
