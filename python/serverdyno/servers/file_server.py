"""The address of file servers that dyno starts: in a network namespace, on loopback, or on an address of this machine.

Their files are in `volume_server.py` (on disk) and `reference_files.py` (reference servers, in memory).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar, Literal, TypeVar

from pydantic import Field

from serverdyno.errors import UserError
from serverdyno.servers.base import LocalSettings
from serverdyno.servers.local import LocalServer

CAP_SYS_ADMIN = 21  # capabilities(7)


class FileServerSettings(LocalSettings):
    listens_elsewhere: ClassVar[bool] = True

    network: Literal["auto", "namespace", "loopback"] = Field(
        default="auto",
        description="namespace: the server has its own network namespace, in which all ports are free "
        "(needs root). loopback: a free port on 127.0.0.1. auto: namespace if this user may "
        "create one.",
    )


FileServerSettingsT = TypeVar("FileServerSettingsT", bound=FileServerSettings)


class FileServer(LocalServer[FileServerSettingsT]):
    """A file server. See `base.ServerDriver` for the contract."""

    @property
    def own_network(self) -> bool:
        """Return whether the server gets its own network namespace. A server for other machines gets none."""
        if self.is_elsewhere:
            return False
        network = self.settings.network
        return network == "namespace" or (network == "auto" and may_unshare())

    def listen_on(self, address: str) -> None:
        super().listen_on(address)
        if self.settings.network == "namespace" or ":" in address:
            raise UserError(
                f"{self.name} can't listen on {address}: this needs an IPv4 address, and network must not "
                "be namespace"
            )

    def network_note(self) -> str:
        if self.own_network:
            return "Network: the server has its own network namespace."
        place = f"the address {self.host}" if self.is_elsewhere else "loopback"
        return f"Network: {place} of the machine; only processes of this server listen on the port."


def may_unshare() -> bool:
    """Return whether this process may create namespaces: whether it has CAP_SYS_ADMIN (unshare(2))."""
    match = re.search(r"^CapEff:\s+([0-9a-f]+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return match is not None and bool(int(match[1], 16) >> CAP_SYS_ADMIN & 1)
