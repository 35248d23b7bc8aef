"""A clock that a test sets, and ports as Ryu describes them."""

from __future__ import annotations

from types import SimpleNamespace


def port(number: int, *, up: bool = True, kbps: int = 0) -> SimpleNamespace:
    return SimpleNamespace(port_no=number, config=0, state=0 if up else 1, curr_speed=kbps)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now
