"""What was left out or is doubtful: a sentence each, and not a thousand of one kind."""

from __future__ import annotations

SHOWN = 3


class Notes:
    """Collects sentences by kind, in the order in which kinds first came."""

    def __init__(self) -> None:
        self._shown: dict[str, list[str]] = {}
        self._more: dict[str, int] = {}

    def add(self, kind: str, sentence: str) -> None:
        """``kind``: in the plural, to be counted where there are many of it."""
        shown = self._shown.setdefault(kind, [])
        if len(shown) < SHOWN:
            shown.append(sentence)
        else:
            self._more[kind] = self._more.get(kind, 0) + 1

    def once(self, sentence: str) -> None:
        """A sentence of which there is one."""
        self.add(sentence, sentence)

    def sentences(self) -> tuple[str, ...]:
        rows: list[str] = []
        for kind, shown in self._shown.items():
            rows += shown
            if more := self._more.get(kind):
                rows.append(f"{more} more {kind}")
        return tuple(rows)
