"""Compile libfairspine-verbs into its wheel, which is for one kind of machine and for any Python 3."""

from __future__ import annotations

import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    # Before setuptools 70.1.
    from wheel.bdist_wheel import bdist_wheel


class Compile(build_py):
    """Runs make beside the copying of the Python files."""

    def run(self) -> None:
        """Copy and compile."""
        super().run()
        out = Path(self.build_lib).resolve() / "fairspine_verbs"
        subprocess.run(["make", "-s", "-C", str(Path(__file__).parent), f"OUT={out}"], check=True)
        for made in (".stub.so", ".versions.map"):
            (out / made).unlink()


class Tagged(bdist_wheel):
    """Names the machine, and no Python of one version."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tag of the wheel."""
        return "py3", "none", super().get_tag()[2]


class Compiled(Distribution):
    """A distribution with a library."""

    def has_ext_modules(self) -> bool:
        """Return that it is for one kind of machine."""
        return True


setup(distclass=Compiled, cmdclass={"build_py": Compile, "bdist_wheel": Tagged})
