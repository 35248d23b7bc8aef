"""Documents as deep as any: refused with their path, or writable."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.files.nesting import MOST_LEVELS, check_nesting

STEPS = st.lists(st.sampled_from(["[%s]", '{"a":%s}', "[1,%s]", '{"b":[],"c":%s}']), min_size=1, max_size=4)


@given(STEPS, st.integers(1, 1000))
def test_what_is_not_refused_can_be_written_and_the_rest_has_a_path(steps: list[str], levels: int) -> None:
    text = "0"
    for level in range(levels):
        text = steps[level % len(steps)] % text
    document = orjson.loads(text)
    if levels <= MOST_LEVELS:
        check_nesting(text.encode(), document)
        assert orjson.loads(orjson.dumps(document)) == document
    else:
        with pytest.raises(InputError) as refused:
            check_nesting(text.encode(), document)
        assert refused.value.field == ""
        assert str(refused.value).startswith(f"is nested deeper than {MOST_LEVELS} levels, at ")
        assert len(str(refused.value)) < 120
