"""Every command says in its help what its exit codes mean."""

from __future__ import annotations

import re
from typing import Any

import pytest

from controller.cli.main import described_program, main
from controller.cli.shared import command_error
from controller.cli.shared.exit_codes import DONE, EVERY, OWN, codes_of, leaves

COMMANDS = [words for words, _ in leaves(described_program())]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_has_its_exit_codes(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    listed = re.search(r"Exit codes: (.*?)\. (?:Example|$)", text)
    assert listed is not None, text
    codes = [int(part.partition(":")[0]) for part in listed[1].split("; ") if re.match(r"\d+:", part)]
    assert codes == list(codes_of(words))
    assert codes[:3] == list(EVERY)


def test_codes_of_commands_belong_to_commands_and_each_special_code_to_some() -> None:
    assert set(OWN) <= {" ".join(words) for words in COMMANDS}
    special = {value for value in vars(command_error).values() if isinstance(value, int)}
    assert special <= {code for codes in OWN.values() for code in codes}
    assert DONE not in special


def test_a_command_made_alone_is_as_among_all() -> None:
    among_all = {" ".join(words): _described(command) for words, command in leaves(described_program())}
    alone = [leaves(described_program(first)) for first in dict.fromkeys(words[0] for words in COMMANDS)]
    assert {" ".join(words): _described(command) for some in alone for words, command in some} == among_all


def _described(command: Any) -> list[object]:
    return [command.help, command.epilog, *((option.name, option.opts, option.required) for option in command.params)]
