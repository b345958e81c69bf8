"""A load file: noted when an experiment begins, read when it is replayed.

Not for: what its lines mean, which the data plane decides.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from serverdyno import _native, clean
from serverdyno.errors import UserError

if TYPE_CHECKING:
    from serverdyno.protocols.files import FilesSettings

MOST_BYTES = 1 << 30
MOST_QUOTED, MOST_PROBLEM = 40, 200


def noted(settings: FilesSettings) -> FilesSettings:
    """Return the settings with the load file's absolute path and SHA-256, if there is one. Raises UserError."""
    if settings.load_file is None:
        return settings
    path = Path(settings.load_file).absolute()
    return settings.model_copy(update={"load_file": str(path), "load_file_sha256": sha256_of(path)})


def read(settings: FilesSettings) -> _native.LoadFile | None:
    """Return the load file, parsed; None: the workload replays none.

    Raises UserError, also where it is not the file any more that was noted.
    """
    path, sha256 = settings.load_file, settings.load_file_sha256
    if path is None:
        return None
    if sha256 is not None and sha256_of(Path(path)) != sha256:
        raise UserError(
            f"{path} has changed since the experiment began",
            hint="Restore it, or begin a new experiment.",
        )
    try:
        return _native.LoadFile.read(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} can't be replayed: {_without_its_lines(f'{error}')}") from error


def _without_its_lines(problems: str) -> str:
    """Return problems of a load file with the words that they quote cut: it may be a file of another kind."""
    cut = re.sub(r'"([^"\n]*)"', lambda found: f'"{clean.line(found[1], MOST_QUOTED)}"', problems)
    return "\n".join(clean.line(line, MOST_PROBLEM) for line in cut.split("\n"))


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file of bounded size. Raises UserError."""
    try:
        if not path.is_file():
            raise UserError(f"{path} can't be replayed: it is not a file")
        if path.stat().st_size > MOST_BYTES:
            raise UserError(f"{path} can't be replayed: it has more than {MOST_BYTES >> 20} MiB")
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path} can't be replayed: {error.strerror}") from error
