"""``python -m fairspine_verbs`` prints the folder of the library, for ``LD_LIBRARY_PATH``."""

from __future__ import annotations

from fairspine_verbs import FOLDER

if __name__ == "__main__":
    print(FOLDER)
