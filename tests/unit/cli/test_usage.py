"""Wrong command lines: a wrong value is named with its option in one line, whatever the option takes."""

from __future__ import annotations

from typing import Any

import pytest

from controller.cli.main import main
from controller.cli.shared.usage import as_input_error


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--seed"),
        ("compare", "--qps"),
        ("survive", "--above"),
        ("simulate", "--workers"),
        ("referee", "--queue"),
        ("emulate", "--period"),
        ("replay", "--seed"),
        ("topology", "--seed"),
        ("push", "--timeout"),
        ("events", "--timeout"),
        ("export", "htsim-cm", "--scale"),
        ("export", "ns3-flows", "--phase"),
    ],
    ids="-".join,
)
def test_what_is_no_number_is_named_with_its_option(run: Any, words: tuple[str, ...]) -> None:
    code, out, err = run(*words, "many")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"fairspine: {words[-1]}: 'many': input should be a valid ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("plan", "--seed", "-1"), "--seed: '-1': input should be greater than or equal to 0"),
        (("mode", "fast"), "MODE: 'fast': is not one of 'planned', 'ecmp', 'frozen'"),
        (("plan", "--bound", "x"), "--bound: 'x': is not one of 'quick', 'exact'"),
        (("token", "add", "a", "--role", "x"), "--role: 'x': is not one of 'read', 'write', 'host'"),
    ],
)
def test_values_out_of_range_are_named(run: Any, arguments: tuple[str, ...], says: str) -> None:
    assert run(*arguments) == (2, "", f"fairspine: {says}\n")


def test_other_wrong_command_lines_are_told_with_the_usage(run: Any) -> None:
    for arguments, says in (
        (("plan", "--nope"), "No such option: --nope"),
        (("plan",), "Missing option '--fabric'"),
        (("nope",), "No such command 'nope'"),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith("Usage: fairspine")
        assert says in err


def test_an_error_that_has_no_wrong_value_stays_as_it_is() -> None:
    assert as_input_error(ValueError("no")) is None


def test_a_command_that_has_done_its_work_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (("--version",), ("policies",), ("plan", "--help")):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0
    assert capsys.readouterr().err == ""
