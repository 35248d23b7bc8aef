"""What can be said of the container file without a builder."""

from __future__ import annotations

import configparser
import re
from pathlib import Path, PurePosixPath

from controller.rest.resources import RESOURCES

ROOT = Path(__file__).parents[2]
LINES = [
    line
    for line in re.sub(r"\\\n", " ", (ROOT / "Containerfile").read_text()).splitlines()
    if line and not line.startswith("#")
]
INSTRUCTIONS = [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in LINES]


def arguments(name: str) -> list[str]:
    return [rest for instruction, rest in INSTRUCTIONS if instruction == name]


def copied() -> set[str]:
    """The files and folders of the tree that the image takes."""
    return {source for rest in arguments("COPY") if "--from" not in rest for source in rest.split()[:-1]}


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    assert [name for name in copied() if not (ROOT / name).exists()] == []
    allowed = {line[1:] for line in (ROOT / ".containerignore").read_text().splitlines() if line.startswith("!")}
    assert copied() == allowed


def test_the_build_has_every_package_and_data_file_of_the_installation() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    packages = {name.removesuffix("*") for name in setup["options.packages.find"]["include"].split()}
    assert packages <= copied()
    for files in setup["options.data_files"].values():
        for name in files.split():
            assert any(PurePosixPath(name).is_relative_to(folder) for folder in copied())


def test_the_controller_runs_without_root_and_can_write_its_store_and_its_cache() -> None:
    order = [instruction for instruction, _ in INSTRUCTIONS]
    assert order.index("USER") < order.index("CMD")
    (user,) = arguments("USER")
    made = " ".join(arguments("RUN"))
    environment = dict(part.split("=", 1) for part in " ".join(arguments("ENV")).split())
    assert f"--user-group --home-dir {environment['STATE_DIRECTORY']}" in made
    for folder in (environment["STATE_DIRECTORY"], environment["NUMBA_CACHE_DIR"]):
        assert re.search(rf"install -d -o {user} -g {user} [^&]*{folder}", made)
    assert arguments("VOLUME") == [environment["STATE_DIRECTORY"]]


def test_the_health_check_asks_for_a_path_that_needs_no_token() -> None:
    (check,) = arguments("HEALTHCHECK")
    path = re.search(r"http://127\.0\.0\.1:8080(/\w+)", check)
    assert path is not None
    (resource,) = [resource for resource in RESOURCES if resource.path == path[1]]
    assert resource.operations["GET"].open


def test_the_commands_are_installed_by_the_package() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    scripts = {line.split(" = ")[0] for line in setup["options.entry_points"]["console_scripts"].strip().splitlines()}
    assert {"fairspine", "ryu-manager"} <= scripts
    (command,) = arguments("CMD")
    assert command.startswith('["ryu-manager", "--config-file", "/etc/fairspine/fairspine.conf"')
    assert any(rest.endswith("/etc/fairspine/fairspine.conf") for rest in arguments("COPY"))
