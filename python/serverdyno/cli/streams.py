"""Prepare the standard streams of the process for any encoding, a full disk and a closed stream.

Results go to standard output, so the command ends with an error if they can't be written. Messages go to standard
error; a run continues if they can't be written. `output.py` prints both.
"""

from __future__ import annotations

import codecs
import fcntl
import io
import os
import sys
import unicodedata
from typing import TYPE_CHECKING

from serverdyno.errors import DynoError, UserError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STANDARD_OUTPUT, STANDARD_ERROR = 1, 2
PLAINER = {
    **{"±": "+-", "\u00d7": "x", "\u00b5": "u", "\u03bc": "u", "•": "*", "≥": ">=", "≤": "<=", "→": "->"},
    **{"\u2212": "-", "\u2013": "-", "\u2014": "-"},
    **dict(zip("▁▂▃▄▅▆▇█▏▎▍▌▋▊▉", "_.-:=+*#|||||||", strict=True)),
}
"""Replacements for characters that a stream's encoding lacks."""


def prepare() -> None:
    """Replace the standard streams, unless a test has done so. Raises UserError if standard output is closed."""
    while (empty := os.open(os.devnull, os.O_RDWR)) <= STANDARD_ERROR:
        pass  # fills a closed descriptor; otherwise the next opened file would become the standard stream
    os.close(empty)
    codecs.register_error("plainer", _plainer)
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Talk(STANDARD_ERROR, "w", closefd=False), sys.stderr)
    if sys.stdout is None or (sys.stdout is sys.__stdout__ and not _is_writable(STANDARD_OUTPUT)):
        sys.stdout = _text(_Talk(STANDARD_OUTPUT, "w", closefd=False), None)
        raise UserError("standard output is closed", hint="To print nothing: >/dev/null.")
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(_Answer(STANDARD_OUTPUT, "w", closefd=False), sys.stdout)


def _text(raw: io.FileIO, before: io.TextIOWrapper | None) -> io.TextIOWrapper:
    encoding = "utf-8" if before is None else before.encoding
    at_once = raw.fileno() == STANDARD_ERROR or raw.isatty()
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, "plainer", line_buffering=at_once)


def _is_writable(descriptor: int) -> bool:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY


def _plainer(error: UnicodeError) -> tuple[str, int]:
    """Return ASCII replacements for characters that the stream's encoding lacks (see codecs.register_error)."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(PLAINER.get(one) or _letter(one) for one in lacking), error.end


def _letter(one: str) -> str:
    """Return a letter without its accents, or a question mark."""
    return unicodedata.normalize("NFKD", one).encode("ascii", "ignore").decode() or "?"


class _Answer(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        """Write the data. Raises DynoError if that fails, and BrokenPipeError if the reader has ended, like `head`."""
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            _drop(STANDARD_OUTPUT)  # otherwise the interpreter would try again when it ends
            raise DynoError(
                f"standard output can't be written: {error.strerror}",
                hint=(
                    "Free some space there, or name another file. `dyno report` prints the results of an "
                    "experiment again."
                ),
            ) from error


class _Talk(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        """Write the data; after the first failure, discard all further data."""
        try:
            return super().write(data)
        except OSError:
            _drop(STANDARD_ERROR)
            return memoryview(data).nbytes


def _drop(descriptor: int) -> None:
    empty = os.open(os.devnull, os.O_WRONLY)
    os.dup2(empty, descriptor)
    os.close(empty)
