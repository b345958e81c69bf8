"""The page as a native Apache module, which Apache's tool apxs builds at each start of the server.

The source of the module is `mod_dyno_page.c`; `apache.py` configures Apache to use it.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from serverdyno.errors import ServerError

SOURCE = Path(__file__).parent / "mod_dyno_page.c"
BUILT = ".libs/mod_dyno_page.so"
"""Path of the built module, relative to its source."""
PATIENCE_S = 120.0
LAST_WORDS = 20


def build(directory: Path, apxs: str = "apxs") -> None:
    """Build the module from its source in a server's directory. Raises ServerError with the output of apxs."""
    tool = shutil.which(apxs)
    if tool is None:
        raise ServerError(
            f"can't build Apache's native module: {apxs} is missing",
            hint='Install it (Debian: apache2-dev), or use dynamic = "in-process", which needs no compiler.',
        )
    try:
        done = subprocess.run(
            [tool, "-c", SOURCE.name],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerError(f"can't build Apache's native module: {error}") from error
    if done.returncode != 0 or not (directory / BUILT).is_file():
        words = (done.stdout + done.stderr).strip().splitlines()[-LAST_WORDS:]
        raise ServerError(
            "\n".join(["can't build Apache's native module:", *words]),
            hint="Check that apxs belongs to the Apache that dyno starts, and that a C compiler is "
            "installed.",
        )
