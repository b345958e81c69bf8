"""A load file: note its digest when an experiment begins, read it for replay, and pack it for other machines.

The data plane parses the lines.
"""

from __future__ import annotations

import base64
import codecs
import hashlib
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from serverdyno import _native, clean
from serverdyno.errors import UserError

if TYPE_CHECKING:
    from serverdyno.plan.protocols.files import FilesSettings

MOST_BYTES = 1 << 30
MOST_QUOTED, MOST_PROBLEM = 40, 200


def noted(settings: FilesSettings) -> FilesSettings:
    """Return the settings with the load file's absolute path and SHA-256, if there is one.

    Raises UserError, including for a file that can't be replayed.
    """
    if settings.load_file is None:
        return settings
    path = Path(settings.load_file).absolute()
    found = settings.model_copy(update={"load_file": str(path), "load_file_sha256": sha256_of(path)})
    read(found)
    return found


def read(settings: FilesSettings) -> _native.LoadFile | None:
    """Return the parsed load file; None if the workload replays none.

    Raises UserError, including for a file that changed after its digest was noted.
    """
    content = _content(settings)
    try:
        return None if content is None else _native.LoadFile.parse(content)
    except ValueError as error:
        raise UserError(
            f"{settings.load_file} can't be replayed: {_without_its_lines(f'{error}')}"
        ) from error


def packed(settings: FilesSettings) -> str | None:
    """Return the load file as text for another process or machine, which does not have the file.

    Raises UserError, including for a file that changed after its digest was noted.
    """
    content = _content(settings)
    return None if content is None else base64.b64encode(zlib.compress(content)).decode()


def unpacked(text: str) -> _native.LoadFile:
    """Return the parsed load file from its packed text. Raises ValueError."""
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(base64.b64decode(text, validate=True), MOST_BYTES)
    except zlib.error as error:
        raise ValueError(f"the load file was corrupted in transit: {error}") from error
    if not unpacking.eof:
        raise ValueError(f"the load file has more than {MOST_BYTES >> 20} MiB, or is incomplete")
    return _native.LoadFile.parse(content)


def _content(settings: FilesSettings) -> bytes | None:
    """Return the content. It is read once, so that the checked content is the one replayed. Raises UserError."""
    if settings.load_file is None:
        return None
    path = Path(settings.load_file)
    _check_size(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unread(path, error) from error
    noted_sha256 = settings.load_file_sha256
    if noted_sha256 is not None and hashlib.sha256(content).hexdigest() != noted_sha256:
        raise UserError(
            f"{path} has changed since the experiment began",
            hint="Restore it, or begin a new experiment.",
        )
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(
            f"{path} can't be replayed: it is UTF-16, not UTF-8",
            hint=f"iconv -f UTF-16 -t UTF-8 {path}",
        )
    return content.removeprefix(codecs.BOM_UTF8)


def _without_its_lines(problems: str) -> str:
    """Return the problems of a load file with shortened quotations, because the file may not be a load file at all."""
    cut = re.sub(r'"([^"\n]*)"', lambda found: f'"{clean.line(found[1], MOST_QUOTED)}"', problems)
    return "\n".join(clean.line(line, MOST_PROBLEM) for line in cut.split("\n"))


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file of bounded size. Raises UserError."""
    _check_size(path)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unread(path, error) from error


def _check_size(path: Path) -> None:
    try:
        if not path.exists():
            raise UserError(
                f"{path} can't be replayed: there is no such file",
                hint="load_file is relative to the directory in which dyno is run.",
            )
        if not path.is_file():
            raise UserError(f"{path} can't be replayed: it is not a file")
        if path.stat().st_size > MOST_BYTES:
            raise UserError(f"{path} can't be replayed: it has more than {MOST_BYTES >> 20} MiB")
    except OSError as error:
        raise _unread(path, error) from error


def _unread(path: Path, error: OSError) -> UserError:
    return UserError(f"{path} can't be replayed: {error.strerror}")
