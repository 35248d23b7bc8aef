"""Headers with conditions: on revisions and known content (RFC 9110, section 13.1), and on the changes in an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import falcon

from controller.core.caller import Role
from controller.core.change_number import ChangeNumber
from controller.core.ports.api import UNCONDITIONAL, Condition
from controller.model.texts.text_form import text_form
from controller.rest.operation import Operation, Parameter
from controller.rest.problems import bad_input
from controller.rest.representation import ZIPPED

_TAG = r'(?:W/)?"[!#-~]*"'
ENTITY_TAGS = rf"(?:\*|[A-Za-z0-9._-]{{1,64}}|{_TAG}(?:[ \t]*,[ \t]*{_TAG})*)"
"""The RFC's syntax, and a revision without quotes, because shells remove quotes."""

_TYPE = Annotated[
    str, text_form(f"^{ENTITY_TAGS}$", "ETags in quotes with commas between them, one revision without quotes, or *")
]

IF_MATCH = Parameter(
    "If-Match",
    "Proceed only if the job has one of these ETags (*: any); otherwise 412.",
    _TYPE,
    '"5d41402abc4b2a76"',
    place="header",
)
IF_NONE_MATCH = Parameter(
    "If-None-Match",
    "Proceed only if the job has none of these ETags (*: if the job does not exist); otherwise 412.",
    _TYPE,
    "*",
    place="header",
)

CACHED = Parameter(
    "If-None-Match",
    "ETags of earlier answers to the same request: if the answer would be one of them, it is 304 without a body.",
    _TYPE,
    'W/"5d41402abc4b2a76"',
    place="header",
)


def change_of(text: str) -> ChangeNumber:
    """Return the number of ``AT_LEAST``.

    Raises:
        ProblemError: 400, a part of it is too large.
    """
    try:
        return ChangeNumber.parse(text)
    except ValueError as error:
        raise bad_input(str(error), field=AT_LEAST.name, value=text) from None


def condition(request: falcon.Request) -> Condition:
    """Return the condition of a request whose two headers were checked: Falcon's parser accepts any text."""
    match, none_match = request.if_match, request.if_none_match
    if match is None and none_match is None:
        return UNCONDITIONAL
    return Condition(
        # If-Match compares strongly (RFC 9110, section 8.8.3.2): a weak tag keeps its mark, and equals no revision.
        None if match is None else _revisions(match, weak=False),
        None if none_match is None else _revisions(none_match, weak=True),
    )


AT_LEAST = Parameter(
    "Fairspine-At-Least",
    "A number from Fairspine-Change: any replica of a cluster answers, also one that does not lead, if it knows this "
    "change within a lease. A single controller ignores it. Empty: as without.",
    Annotated[str, text_form(r"^([0-9]+-[0-9]+)?$", "two numbers with - between them")],
    "4-51",
    place="header",
)


REASON = Parameter(
    "Fairspine-Reason",
    "Why the change is made, such as the number of a change request: up to 200 printable ASCII characters. The "
    "history, events and the log have it.",
    Annotated[str, text_form(r"^[ -~]{0,200}$", "printable ASCII characters, 200 at most")],
    "CHG123",
    place="header",
)


def header_parameters(operation: Operation) -> tuple[Parameter, ...]:
    """Return the parameters of an operation that are headers."""
    of_store = (AT_LEAST,) if operation.of_store else ()
    of_store = (*of_store, REASON) if operation.role is Role.WRITE else of_store
    if operation.conditional:
        return IF_MATCH, IF_NONE_MATCH, *of_store
    return (CACHED, *of_store) if operation.content_tagged else of_store


def _revisions(tags: Sequence[str], *, weak: bool) -> frozenset[str]:
    """Return the revisions of a header; none for ``*``."""
    return frozenset(
        str(tag).removesuffix(ZIPPED) if weak or not getattr(tag, "is_weak", False) else f"W/{tag}"
        for tag in tags
        if tag != "*"
    )
