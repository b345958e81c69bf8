"""Find the distribution's package of a program, because its version does not say what the distribution changed.

Only Debian packages are found, by dpkg-query(1).
"""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

QUERY_S = 30


def package_of(program: Path) -> str | None:
    """Return name and revision, such as `nginx 1.22.1-9+deb12u11`; None if no package contains the program."""
    path = program.resolve()
    return _package_of(path, path.stat().st_mtime_ns if path.exists() else 0)


@functools.cache
def _package_of(path: Path, _changed_ns: int) -> str | None:
    """Return the package of a program, cached by its modification time: a query takes 0.1 s, and every run needs it."""
    # Packages older than the /usr merge list their programs without /usr.
    for place in (path, Path("/", *path.parts[2:]) if path.is_relative_to("/usr") else path):
        owner = _asked("--search", f"{place}")
        if owner and not owner.startswith("diversion by"):
            names = owner.partition(": ")[0].split(", ")
            return _asked("--show", "--showformat=${Package} ${Version}\\n", names[0])
    return None


def _asked(*arguments: str) -> str | None:
    """Return the first line of dpkg-query's output; None if there is none."""
    try:
        done = subprocess.run(
            ["dpkg-query", *arguments], capture_output=True, text=True, timeout=QUERY_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.splitlines()[0] if done.returncode == 0 and done.stdout else None
