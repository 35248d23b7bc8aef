"""Errors about a value of a configuration file name the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from oslo_config import cfg

from controller.config import unknown_keys
from controller.model.errors import InputError
from controller.option_origins import naming_the_file, wrong_type


def written(folder: Path, text: str, name: str = "a.conf") -> str:
    file = folder / name
    file.write_text(f"[DEFAULT]\n{text}\n")
    return str(file)


def parsed(*args: str) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    known = [cfg.IntOpt("plans-kept", default=1), cfg.StrOpt("policy", default="fair"), cfg.StrOpt("ca-certs")]
    conf.register_cli_opts(known)
    conf(args=list(args), project="x", default_config_files=[])
    return conf


def test_a_value_of_a_file_names_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "plans_kept = 0")
    error = InputError("must be at least 1", field="plans_kept", value=0)
    args = "--config-file", file
    conf = parsed(*args)
    assert str(naming_the_file(error, conf, args)) == f"{file}: plans_kept: 0: must be at least 1"
    part = InputError("no policy has this option", field="plans_kept: option", value="x")
    assert naming_the_file(part, conf, args).source == file


@pytest.mark.parametrize("field", ["plans_kept", "policy", "ca_certs", "hosts[0]", "", "--x"])
def test_a_value_of_the_command_line_a_default_and_other_fields_name_no_file(tmp_path: Path, field: str) -> None:
    args = "--config-file", written(tmp_path, "plans_kept = 3"), "--plans-kept", "0"
    assert naming_the_file(InputError("no", field=field), parsed(*args), args).source == ""


def test_a_file_that_an_error_names_already_stays(tmp_path: Path) -> None:
    args = "--config-file", written(tmp_path, "policy = x")
    error = InputError("no", field="policy", source="fabric.yaml")
    assert naming_the_file(error, parsed(*args), args).source == "fabric.yaml"


def test_a_value_of_the_wrong_type_names_the_last_file_that_has_it_or_the_option(tmp_path: Path) -> None:
    first, last = written(tmp_path, "plans_kept = 3"), written(tmp_path, "plans_kept = x", "b.conf")
    other = written(tmp_path, "policy = x", "c.conf")
    args = ["--config-file", first, f"--config-file={last}", "--config-file", other, "controller.app"]
    said = "argument --plans_kept: Invalid Integer value: x"
    assert str(wrong_type(said, args)) == f"{last}: plans_kept: Invalid Integer value: x"
    assert str(wrong_type(said, [*args, "--plans-kept=x"])) == "--plans-kept: Invalid Integer value: x"
    assert str(wrong_type(said, ["--config-dir", str(tmp_path)])).startswith(f"{last}: plans_kept: ")
    assert str(wrong_type("unrecognized arguments: --x", args)) == "unrecognized arguments: --x"


def test_names_with_dashes_are_no_options_of_a_file() -> None:
    known = {("DEFAULT", "plans_kept"), ("http", "port")}
    document = {"DEFAULT": {"plans_kept": 1, "plans-kept": 1}, "http": {"port": 1, "x": 1}}
    assert unknown_keys(document, known) == ["plans-kept", "[http] x"]
