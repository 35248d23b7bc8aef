"""Check of the optional packages that a sweep needs, before any work that takes time."""

from __future__ import annotations

from importlib import import_module

from emulation.evaluation.sweep import SweepBackend


def check_installed(*, workers: int, backend: SweepBackend, whole: bool) -> None:
    """Import the packages that this sweep and its report use.

    Raises:
        ModuleNotFoundError: a package is not installed; names the first one.
    """
    import_module("matplotlib.figure")
    if whole:
        import_module("pyarrow.parquet")
    if backend is SweepBackend.DASK:
        import_module("distributed")
    elif workers > 1:
        import_module("joblib")
