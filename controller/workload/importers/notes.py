"""Notes on parts left out or doubtful: a sentence each, limited in number for each kind."""

from __future__ import annotations

SHOWN = 3


class Notes:
    """A collector of sentences by kind, in the order in which kinds first occurred."""

    def __init__(self) -> None:
        """Create an empty collector."""
        self._shown: dict[str, list[str]] = {}
        self._more: dict[str, int] = {}
        self._warnings: list[str] = []

    def add(self, kind: str, sentence: str) -> None:
        """Add a sentence; ``kind`` is the plural noun for counting further ones."""
        shown = self._shown.setdefault(kind, [])
        if len(shown) < SHOWN:
            shown.append(sentence)
        else:
            self._more[kind] = self._more.get(kind, 0) + 1

    def once(self, sentence: str) -> None:
        """Add a sentence only once."""
        self.add(sentence, sentence)

    def warn(self, sentence: str) -> None:
        """Add a warning on a part that the job lacks, or on an assumption; warnings are shown first."""
        if sentence not in self._warnings:
            self._warnings.append(sentence)

    def warnings(self) -> tuple[str, ...]:
        """Return the warnings, with the number of those not shown."""
        if len(self._warnings) <= SHOWN:
            return tuple(self._warnings)
        return (*self._warnings[:SHOWN], f"{len(self._warnings) - SHOWN} more such warnings")

    def sentences(self) -> tuple[str, ...]:
        """Return the sentences, with the number of those not shown for each kind."""
        rows: list[str] = []
        for kind, shown in self._shown.items():
            rows += shown
            if more := self._more.get(kind):
                rows.append(f"{more} more {kind}")
        return tuple(rows)
