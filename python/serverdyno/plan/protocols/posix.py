"""A directory of this machine: how its clients use it, what is said of it, and how what they left is removed."""

from __future__ import annotations

import platform
import shlex
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field

from serverdyno.plan.protocols.access import Access
from serverdyno.plan.protocols.base import Protocol
from serverdyno.plan.protocols.files import CLIENTS_DIRECTORY, FILES
from serverdyno.plan.protocols.look import Look
from serverdyno.plan.protocols.model import SectionModel


class PosixSettings(SectionModel):
    """How a client uses a directory."""

    direct: bool = Field(
        default=False,
        description="Bypass the page cache (O_DIRECT) if offset and length are multiples of 4,096.",
    )
    flush: Literal["fsync", "fdatasync", "none"] = Field(
        default="fsync", description="The system call for a client's flush; none: no call."
    )


class DirectoryLook:
    """The directory, and the room on it."""

    has_shares = False
    port: int | None = None

    def __init__(self, url: str) -> None:
        self.directory: Path | None = Path(directory_of(url))

    def ask(self, target: Any) -> None:
        """Asks once; what it says is judged by `run/ask.py`."""
        target.look(0)

    def version(self) -> str | None:
        """The kernel's, which has the file system."""
        return f"Linux {platform.release()}"

    def notes(self) -> list[str]:
        """What nobody else does."""
        return ["No server is in between: system calls on a directory of this machine."]


class Posix(Protocol[PosixSettings]):
    """Files below a directory: a local disk, or whatever is mounted there."""

    name = "posix"
    title = "system calls"
    schemes = ("file",)
    example_url = "file:///mnt/disk"
    work = FILES
    section = "posix"
    settings_type = PosixSettings
    has_host = False
    clients_directory = CLIENTS_DIRECTORY

    def target_section(self, access: Access, settings: PosixSettings) -> dict[str, Any]:
        """Return the directory's URL and how it is used."""
        return {"url": access.url, **settings.model_dump()}

    def described(self, settings: PosixSettings, timeout: str) -> str:
        """Say calls, caches and what can't be bounded."""
        flush = {"none": "nothing"}.get(settings.flush, settings.flush)
        direct = (
            "around the page cache where aligned to 4,096 bytes"
            if settings.direct
            else "through the page cache"
        )
        return (
            f"System calls on a directory of this machine, {direct}; a flush is {flush}; one thread a client, which "
            "does the work of the file system, too: the generator's CPU time has both. Locks are those of the file "
            f"system (F_OFD_SETLK). A system call that hangs can't be ended: the timeout of {timeout} counts it late."
        )

    def base_directory(self, url: str) -> str:
        """Return nothing: clients work in the directory itself."""
        del url
        return ""

    def remove_command(self, access: Access, share: str, directory: str) -> str:
        """Return a command that removes the directory."""
        del share
        return f"rm -r {shlex.quote(directory_of(access.url) + '/' + directory)}"

    def look(self, url: str) -> Look:
        """Return the directory itself."""
        return DirectoryLook(url)


def directory_of(url: str) -> str:
    """Return the path that a `file:` URL names."""
    return unquote(urlsplit(url).path).rstrip("/") or "/"


POSIX = Posix()
