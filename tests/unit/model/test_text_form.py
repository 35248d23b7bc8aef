"""Forms of texts are explained in words, without the regular expression."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import TypeAdapter, ValidationError

from controller.model.files.fabric_file import from_validation_error
from controller.model.texts.text_form import text_form

ROOT = Path(__file__).parents[3]


def test_the_error_of_a_text_of_another_form_has_words() -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(Annotated[str, text_form("^[0-7]+$", "octal digits")]).validate_python("8")
    error = from_validation_error(refused.value)
    assert (error.reason, error.value) == ("must be octal digits", "8")


def test_every_pattern_of_the_product_has_words() -> None:
    pattern = re.compile(r"(Constraints|Field)\([^()]*\bpattern=")
    bare = [file for file in (ROOT / "controller").rglob("*.py") if pattern.search(file.read_text())]
    assert [file.name for file in bare] == ["text_form.py"]
