"""NFSv3, NFSv4.1 and NFSv4.2: settings, how clients use them, and how leftover files are removed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field

from serverdyno import _native
from serverdyno.plan.protocols.access import Access
from serverdyno.plan.protocols.base import Protocol
from serverdyno.plan.protocols.files import CLIENTS_DIRECTORY, FILES, FilesSettings
from serverdyno.plan.protocols.look import Look
from serverdyno.plan.protocols.model import SectionModel

NfsVersion = Literal["3", "4.1", "4.2"]
"""Values of the mount option `vers`."""
Transport = Literal["tcp", "udp"]
"""Values of the mount option `proto`."""
LOCKS: Final = {
    "3": "locks are local to each client (as in a mount with nolock)",
    "4.1": "the server manages locks",
    "4.2": "the server manages locks",
}
WRITES: Final = "writes are UNSTABLE with a COMMIT at close and flush (without a client cache FILE_SYNC)"


def version_of(url: str) -> str:
    """Return the NFS version that a URL requests: "3" by default, and "4.2" if it requests version 4."""
    asked = "3"
    for name, value in parse_qsl(urlsplit(url).query, keep_blank_values=True):
        if name in ("vers", "version", "nfsvers"):
            asked = value
        elif not value and name in ("v3", "v4", "v4.1", "v4.2"):
            asked = name[1:]
    return "4.2" if asked == "4" else asked


def _port_of(url: str) -> int | str | None:
    """Return the port of the NFS service that a URL names; None if it names none."""
    parts = urlsplit(url)
    asked = [value for name, value in parse_qsl(parts.query) if name in ("nfsport", "port")]
    return asked[-1] if asked else parts.port


def query_of(version: NfsVersion, proto: Transport, mount_port: int) -> str:
    """Return the query part of a URL that makes clients use this version and transport."""
    if version != "3":
        return f"?vers={version}"
    return f"?mountport={mount_port}" + ("&proto=udp" if proto == "udp" else "")


def wrong_transport(version: NfsVersion, proto: Transport) -> dict[str, bool]:
    """Return each possible contradiction of version and transport, and whether it applies."""
    return {
        f'proto "udp" is not possible with nfs_version "{version}": NFSv4 needs TCP': (
            proto == "udp" and version != "3"
        )
    }


class ExportLook:
    """A check that mounts each export once and looks at its free space."""

    def __init__(self, version: str) -> None:
        self._version = version

    has_shares = False
    port: int | None = 2049
    directory: Path | None = None

    def ask(self, target: Any) -> None:
        """Query the exports once. `run/ask.py` evaluates their state."""
        target.look(0)

    def version(self) -> str | None:
        """Return the version of the protocol, because NFS does not report the version of the server's program.

        The version in use is recorded with the sessions.
        """
        return (
            "NFS 4.2, or 4.1 if the server does not support 4.2"
            if self._version == "4.2"
            else f"NFS {self._version}"
        )

    def notes(self) -> list[str]:
        return ["What COMMIT does there is unknown."]


class NfsSettings(SectionModel):
    readdirplus: bool = Field(
        default=True,
        description="List directories with attributes. false: ask for each file's attributes, as clients "
        "did before 2003.",
    )

    def parameters(self) -> dict[str, Any]:
        """Return the settings if they differ from the defaults of today's clients; otherwise none."""
        return {} if self.readdirplus else self.model_dump()


class Nfs(Protocol[NfsSettings]):
    """NFSv3 over TCP and UDP, NFSv4.1 and NFSv4.2 over TCP."""

    name = "nfs"
    title = "NFS"
    schemes = ("nfs",)
    example_url = "nfs://127.0.0.1/export"
    work = FILES
    section = "nfs"
    settings_type = NfsSettings
    has_sessions = True
    clients_directory = CLIENTS_DIRECTORY

    def target_section(self, access: Access, settings: NfsSettings) -> dict[str, Any]:
        """Return the target with its exports as shares."""
        return {
            "url": access.url,
            "shares": list(access.shares),
            "network_namespace": access.network_namespace,
            **settings.parameters(),
        }

    def server_problem(
        self,
        settings: NfsSettings,
        work_settings: FilesSettings,
        url: str | None,
        server_settings: Mapping[str, Any],
    ) -> str | None:
        """Return a problem if clients would share files with a version whose locks are local to each client."""
        del settings
        version = version_of(url) if url is not None else server_settings.get("nfs_version", "3")
        if work_settings.contention is None or version != "3":
            return None
        needed = "end the URL with ?vers=4.1" if url is not None else 'set nfs_version = "4.1"'
        return f"clients share files in this suite, but over NFSv3 {LOCKS['3']}: {needed}"

    def described(self, settings: NfsSettings, timeout: str) -> str:
        """Describe version, transport and authentication."""
        del settings
        return (
            "NFSv3 over TCP by default; UDP, NFSv4.1 or NFSv4.2 if the server's settings or its URL "
            "(?proto=udp, ?vers=4.1) say so. AUTH_SYS, from ports above 1023. Transfers have the server's "
            "preferred size: up to 1 MiB, or 32 KiB over UDP. Each client has one mount or session, and "
            f"one connection; timeout {timeout}."
        )

    def session_note(self, dialect: str) -> str:
        """Return whether the client or the server keeps locks, and how writes become durable."""
        return ", ".join([*([LOCKS[dialect]] if dialect in LOCKS else []), WRITES])

    def base_directory(self, url: str) -> str:
        """Return an empty path, because the whole path of the URL is mounted."""
        del url
        return ""

    def remove_command(self, access: Access, share: str, directory: str) -> str:
        """Return commands that mount the export and remove the directory."""
        parts = urlsplit(access.url)
        source = shlex.quote(f"{parts.hostname}:{share}")
        options = "vers=3,nolock" if (version := version_of(access.url)) == "3" else f"vers={version}"
        if port := _port_of(access.url):
            options += f",port={port}"
        every = "*" if directory.endswith("*") else ""  # a pattern must stay outside quotes
        removed = shlex.quote(f"/mnt/{directory.removesuffix('*')}") + every
        return f"mount -t nfs -o {options} {source} /mnt && rm -r {removed} && umount /mnt"

    def look(self, url: str) -> Look:
        return ExportLook(version_of(url))


NFS = Nfs()


def every_export_answers(access: Access) -> bool:
    """Return whether each export of a server can be mounted."""
    section = json.dumps(NFS.target_section(access, NfsSettings()))
    try:
        looks = _native.Target.open(NFS.name, section, consent_token=access.consent_token).look(0)
    except (_native.SessionError, OSError):
        return False
    return all(look["why"] is None for look in looks)
