"""What an order needs that a bare installation may lack, asked for before anything takes time."""

from __future__ import annotations

from importlib import import_module

from emulation.evaluation.sweep import Backend


def check_installed(*, workers: int, backend: Backend, whole: bool) -> None:
    """Import what this sweep and its report will.

    Raises:
        ModuleNotFoundError: the first that is not there.
    """
    import_module("matplotlib.figure")
    if whole:
        import_module("pyarrow.parquet")
    if backend is Backend.DASK:
        import_module("distributed")
    elif workers > 1:
        import_module("joblib")
