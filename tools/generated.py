"""Write the files that a tool generates, or check that they are up to date."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def write_or_check(made: Mapping[Path, str]) -> list[Path]:
    """Write the files whose text differs, and return them.

    With `--check`, write nothing and exit with 1 if any file differs.
    """
    stale = [path for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text]
    if stale and "--check" in sys.argv:
        sys.exit(f"not as made: {', '.join(path.name for path in stale)}")
    for path in stale:
        path.write_text(made[path], encoding="utf-8")
    return stale
