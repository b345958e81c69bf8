"""Files that are either whole or not there, whenever the writer or the machine dies."""

from __future__ import annotations

import os
import re
from itertools import count
from pathlib import Path

from serverdyno.errors import DynoError

_PREFIX, _SUFFIX = ".unfinished-", ".tmp"
_ASIDE = ".damaged"
_SET_ASIDE = re.compile(rf".+{re.escape(_ASIDE)}(-[1-9][0-9]*)?")


def write_atomically(path: Path, content: bytes) -> None:
    """Writes `path` whole or not at all, and returns once it would survive a loss of power.

    Makes the folders above it where they are missing. Raises DynoError where the disk won't take it.
    """
    try:
        _make_folder(path.parent)
        unfinished = path.with_name(f"{_PREFIX}{path.name}{_SUFFIX}")
        try:
            with unfinished.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise DynoError(
            f"can't write {path}: {error.strerror}",
            hint="what was written before is whole; make room, then `dyno resume`",
        ) from error


def remove_unfinished(folder: Path) -> None:
    """Removes what writers that were killed left anywhere below `folder`. Only for who holds its lock."""
    for leftover in folder.rglob(f"{_PREFIX}*{_SUFFIX}"):
        leftover.unlink(missing_ok=True)


def set_aside(path: Path) -> Path:
    """Renames a file to a name that nothing has yet and nothing reads: `run.json.damaged`, `run.json.damaged-2`.

    Only for who holds the folder's lock. Raises DynoError.
    """
    names = (f"{path.name}{_ASIDE}{f'-{number}' if number > 1 else ''}" for number in count(1))
    aside = next(place for name in names if not (place := path.with_name(name)).exists())
    try:
        path.rename(aside)
        _sync_folder(path.parent)
    except OSError as error:
        raise DynoError(f"can't rename {path}: {error.strerror}") from error
    return aside


def set_aside_below(folder: Path) -> list[Path]:
    """The files that were set aside anywhere below `folder`, in the order of their names.

    A configuration may be named so, too; what belongs to it is a folder, or ends otherwise.
    """
    found = folder.rglob(f"*{_ASIDE}*")
    return sorted(path for path in found if _SET_ASIDE.fullmatch(path.name) and path.is_file())


def _make_folder(folder: Path) -> None:
    """Makes a folder and those above it; each new one is on the disk before anything is put into it."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
