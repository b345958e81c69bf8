"""A directory of this machine: the settings of clients, a check of the directory, and the removal of leftover files."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field

from serverdyno.plan.protocols.access import Access
from serverdyno.plan.protocols.base import Protocol
from serverdyno.plan.protocols.files import CLIENTS_DIRECTORY, FILES, FilesSettings
from serverdyno.plan.protocols.look import Look
from serverdyno.plan.protocols.model import SectionModel


class PosixSettings(SectionModel):
    direct: bool = Field(
        default=False,
        description="Bypass the page cache (O_DIRECT) if offset and length are multiples of 4,096.",
    )
    flush: Literal["fsync", "fdatasync", "none"] = Field(
        default="fsync", description="The system call for a client's flush; none: no call."
    )


class DirectoryLook:
    """A check of a directory and its free space."""

    has_shares = False
    port: int | None = None

    def __init__(self, url: str) -> None:
        self.directory: Path | None = Path(directory_of(url))

    def ask(self, target: Any) -> None:
        """Query the directory once. `run/ask.py` evaluates the answer."""
        target.look(0)

    def version(self) -> str | None:
        """Return the version of the kernel, which implements the file system."""
        return f"Linux {platform.release()}"

    def notes(self) -> list[str]:
        return ["There is no server: clients make system calls on a directory of this machine."]


class Posix(Protocol[PosixSettings]):
    """Files below a directory, on a local disk or on any mounted file system."""

    name = "posix"
    title = "system calls"
    schemes = ("file",)
    example_url = "file:///mnt/disk"
    no_parameters = "write ? in a name as %3F"
    work = FILES
    section = "posix"
    settings_type = PosixSettings
    has_host = False
    volume = "directory"
    clients_directory = CLIENTS_DIRECTORY

    def target_section(self, access: Access, settings: PosixSettings) -> dict[str, Any]:
        return {"url": access.url, **settings.model_dump()}

    def server_problem(
        self,
        settings: PosixSettings,
        work_settings: FilesSettings,
        url: str | None,
        server_settings: Mapping[str, Any],
    ) -> str | None:
        """Return a problem if the suite measures the outage of a server."""
        del settings, url, server_settings
        if work_settings.failover is None:
            return None
        return (
            "the suite measures an outage of the server, but a directory has no server: use smb:// or nfs://"
        )

    def described(self, settings: PosixSettings, timeout: str) -> str:
        """Describe the system calls, the caches, and the operations without a time limit."""
        flush = {"none": "nothing"}.get(settings.flush, settings.flush)
        direct = (
            "bypassing the page cache if aligned to 4,096 bytes"
            if settings.direct
            else "through the page cache"
        )
        return (
            f"System calls on a directory of this machine, {direct}; a flush is {flush}. Each client has "
            "one thread, which also does the work of the file system, so the generator's CPU time includes "
            "both. Locks are those of the file system (F_OFD_SETLK). A system call that hangs can't be "
            f"ended: the timeout of {timeout} reports it late."
        )

    def base_directory(self, url: str) -> str:
        """Return an empty path, because clients work in the directory itself."""
        del url
        return ""

    def remove_command(self, access: Access, share: str, directory: str) -> str:
        del share
        return f"rm -r {shlex.quote(directory_of(access.url) + '/' + directory)}"

    def look(self, url: str) -> Look:
        return DirectoryLook(url)


def directory_of(url: str) -> str:
    return unquote(urlsplit(url).path).rstrip("/") or "/"


def directory_problem(url: str) -> str | None:
    """Return why clients can't work in the directory of a URL; None if they can, as far as its mode shows."""
    directory = Path(directory_of(url))
    if not directory.exists():
        return f"there is no directory {directory}"
    if not directory.is_dir():
        return f"{directory} is not a directory"
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        return f"{directory} can't be read and written by this user"
    return None


POSIX = Posix()
