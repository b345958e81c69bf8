"""Access the files below a folder, relative to its open descriptor, and never through a link.

Experiments are untrusted input. A symbolic link, a pipe or a device is refused where a file is expected, and the size
that is read is bounded. Files are written atomically, even if the writer or the machine dies. `experiment.py` defines
the files. The path of the folder itself is the user's, and is trusted.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Self

from serverdyno.errors import DynoError, WriteError
from serverdyno.store.damage import damaged
from serverdyno.units import MIB

DEEPEST = 5
"""Greatest depth of folders that is searched; an experiment has three levels."""
_PREFIX, _SUFFIX = ".unfinished-", ".tmp"
_ASIDE = ".damaged"
_SET_ASIDE = re.compile(rf".+{re.escape(_ASIDE)}(-[1-9][0-9]*)?")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_REASONS = {
    errno.ELOOP: "it is a symbolic link, which an experiment must not contain",
    errno.ENOTDIR: "a link or a file has the name of a required folder",
    errno.EEXIST: "the name of a required folder or of a new file is already used",
}


class Folder:
    """A folder. Names are relative to it, with `/` between parts. Every method raises DynoError."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a folder named by the user, following links. Raises OSError."""
        return cls(path, os.open(path, _DIRECTORY))

    def below(self, name: str) -> Self:
        """Return the subfolder `name`, created if missing."""
        with self._told("write", name), self._opened(name, make=True) as directory:
            return type(self)(self.path / name, os.dup(directory))

    def exists(self, name: str) -> bool:
        """Return whether the name exists, even as a dangling link."""
        folder, leaf = _split(name)
        with self._told("read", name):
            try:
                with self._opened(folder) as directory:
                    os.stat(leaf, dir_fd=directory, follow_symlinks=False)
            except FileNotFoundError:
                return False
        return True

    def names(self, name: str = "", pattern: str = "*") -> list[str]:
        """Return the sorted names in a folder; empty if the folder does not exist."""
        with self._told("read", name):
            try:
                with self._opened(name) as directory:
                    return sorted(found for found in os.listdir(directory) if fnmatchcase(found, pattern))
            except FileNotFoundError:
                return []

    def read(self, name: str, most_bytes: int, *, may_be_empty: bool = False) -> bytes:
        """Return the content of a file. Raises DamagedError if it is too large, or empty without `may_be_empty`."""
        folder, leaf = _split(name)
        with self._told("read", name), self._opened(folder) as directory:
            # Check before opening, because opening can affect a device. Check again afterwards, because the file may
            # have been replaced.
            self._check_regular(os.stat(leaf, dir_fd=directory, follow_symlinks=False), "read", name)
            with open(os.open(leaf, os.O_RDONLY | _FILE, dir_fd=directory), "rb") as file:
                self._check_regular(os.fstat(file.fileno()), "read", name)
                content = file.read(most_bytes + 1)
        if not content and not may_be_empty:
            raise damaged(self.path / name, "it is empty")
        if len(content) > most_bytes:
            raise damaged(self.path / name, f"it has more than {most_bytes // MIB} MiB")
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically, and return once the file would survive a power cut.

        Missing parent folders are created. An existing file or link with the name is replaced.
        """
        folder, leaf = _split(name)
        unfinished = f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
        with self._told("write", name), self._opened(folder, make=True) as directory:
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
                with open(os.open(unfinished, flags, 0o666, dir_fd=directory), "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(unfinished, leaf, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                with suppress(OSError):
                    os.unlink(unfinished, dir_fd=directory)
                raise
            os.fsync(directory)

    def remove(self, name: str) -> None:
        """Remove a file or link if it exists."""
        folder, leaf = _split(name)
        with self._told("remove", name), suppress(FileNotFoundError), self._opened(folder) as directory:
            os.unlink(leaf, dir_fd=directory)

    def remove_unfinished(self) -> None:
        """Remove the unfinished files of killed writers. Call it only while holding the lock."""
        for name in self._walk():
            leaf = _split(name)[1]
            if leaf.startswith(_PREFIX) and leaf.endswith(_SUFFIX):
                self.remove(name)

    def set_aside(self, name: str) -> str:
        """Rename a file to an unused name, `run.json.damaged-2`, and return that name.

        Call it only while holding the lock.
        """
        folder, leaf = _split(name)
        numbered = (f"{leaf}{_ASIDE}{f'-{number}' if number > 1 else ''}" for number in count(1))
        with self._told("rename", name), self._opened(folder) as directory:
            taken = set(os.listdir(directory))
            aside = next(free for free in numbered if free not in taken)
            os.rename(leaf, aside, src_dir_fd=directory, dst_dir_fd=directory)
            os.fsync(directory)
        return aside

    def was_set_aside(self) -> list[str]:
        """Return the files that `set_aside` has renamed, sorted by name.

        A configuration may have a similar name, but its data are in a folder or have another ending.
        """
        found = sorted(name for name in self._walk() if _SET_ASIDE.fullmatch(_split(name)[1]))
        return [os.fsencode(name).decode(errors="replace") for name in found]

    def lock_file(self, name: str) -> int:
        """Return an open descriptor of a lock file, created if missing; the caller closes it."""
        with self._told("write", name):
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT | _FILE, 0o644, dir_fd=self._descriptor)
            try:
                found = os.fstat(descriptor)
                self._check_regular(found, "write", name)
                if found.st_nlink > 1:
                    raise DynoError(
                        f"can't write {self.path / name}: the file has a second hard link elsewhere"
                    )
            except BaseException:
                os.close(descriptor)
                raise
        return descriptor

    def _walk(self) -> Iterator[str]:
        """Yield every regular file by its relative name, skipping unreadable folders."""
        pending = [PurePosixPath()]
        while pending:
            folder = pending.pop()
            with suppress(OSError), self._opened(f"{folder}") as directory, os.scandir(directory) as entries:
                for entry in list(entries):
                    if entry.is_dir(follow_symlinks=False) and len(folder.parts) < DEEPEST:
                        pending.append(folder / entry.name)
                    elif entry.is_file(follow_symlinks=False):
                        yield f"{folder / entry.name}"

    @contextmanager
    def _opened(self, name: str, *, make: bool = False) -> Iterator[int]:
        """Yield the descriptor of a folder, opened part by part. Raises OSError."""
        descriptor = os.dup(self._descriptor)
        try:
            for part in _parts(name):
                if make:
                    _make_folder(part, descriptor)
                inner = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _told(self, doing: str, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            hint = "Free some space on this disk." if error.errno in (errno.ENOSPC, errno.EDQUOT) else None
            reason = _REASONS.get(error.errno or 0) or f"{error.strerror}"
            raise self._problem(doing, name, reason, hint) from error

    def _problem(self, doing: str, name: str, reason: str, hint: str | None = None) -> DynoError:
        place = self.path / name
        if doing == "read":
            return DynoError(f"{place} can't be read: {reason}")
        kind = WriteError if doing == "write" else DynoError
        return kind(f"can't {doing} {place}: {reason}", hint=hint)

    def _check_regular(self, found: os.stat_result, doing: str, name: str) -> None:
        if stat.S_ISLNK(found.st_mode):
            raise self._problem(doing, name, _REASONS[errno.ELOOP])
        if not stat.S_ISREG(found.st_mode):
            raise self._problem(doing, name, "it is not a regular file")


def _parts(name: str) -> tuple[str, ...]:
    parts = PurePosixPath(name).parts
    if ".." in parts or "/" in parts:
        raise ValueError(f"not a name below a folder: {name!r}")
    return parts


def _split(name: str) -> tuple[str, str]:
    *folder, leaf = _parts(name)
    return "/".join(folder), leaf


def _make_folder(name: str, descriptor: int) -> None:
    """Create a folder if it is missing, and sync it before files are put into it."""
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=descriptor)
        os.fsync(descriptor)
