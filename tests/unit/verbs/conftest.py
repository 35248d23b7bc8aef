"""The substitute, compiled once for all tests of a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.verbs.port_file import PortFile
from agent.verbs.qp_ring import QpRing
from tests.rig.verbs.programs import VerbsBuild, VerbsProgram, build

Start = Callable[..., VerbsProgram]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> VerbsBuild:
    return build(tmp_path_factory.mktemp("verbs"))


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[PortFile]:
    file = PortFile(tmp_path)
    yield file
    file.close()


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[QpRing]:
    file = QpRing(tmp_path)
    yield file
    file.close()


@pytest.fixture
def start(made: VerbsBuild, tmp_path: Path) -> Iterator[Start]:
    programs: list[VerbsProgram] = []

    def started(of: VerbsBuild = made, **how: object) -> VerbsProgram:
        programs.append(VerbsProgram(of, tmp_path, **how))  # type: ignore[arg-type]
        return programs[-1]

    yield started
    for program in programs:
        program.kill()
