"""Rows, cells and planes of the page's matrix."""

from __future__ import annotations

ROWS = "return [...document.querySelectorAll('.matrix tbody th')].map((head) => head.textContent)"


CELL = "return [...document.querySelectorAll('.matrix tbody tr')][{row}].cells[{column}]"


PLANE = "const e = document.querySelector('#plane'); e.value = arguments[0]; e.dispatchEvent(new Event('change'))"


def ring(*hosts: str) -> dict[str, object]:
    call = {"name": "r", "op": "all_reduce", "ranks": list(range(len(hosts))), "bytes": 10**9}
    return {"hosts": list(hosts), "collectives": [call]}
